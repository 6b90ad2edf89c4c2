"""Variable-length integers, as in Kafka's record format v2 and its flexible message versions.

Seven bits a byte, the lowest first; the high bit of a byte says that another follows. Signed ones
are zig-zag encoded first (0, -1, 1, -2, ... become 0, 1, 2, 3, ...), as in Protocol Buffers.
int32 takes at most 5 bytes ("varint"), int64 at most 10 ("varlong"); source: KIP-98, KIP-482.

Padded encodings (0x80 0x00 for 0) are read, as Kafka reads them; more bytes than the type can
need, and bits past the type's width, are errors.
"""

from __future__ import annotations

from typing import Final

from protocol.errors import CorruptMessageError
from protocol.identifiers import Buffer

__all__ = [
    "VARINT_BYTES_MAX",
    "VARLONG_BYTES_MAX",
    "decode_unsigned_varint",
    "decode_varint",
    "decode_varlong",
    "encode_unsigned_varint",
    "encode_varint",
    "encode_varlong",
    "raw_varint",
    "raw_varlong",
    "size_of_unsigned_varint",
    "size_of_varint",
    "size_of_varlong",
]

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
UINT32_MAX: Final = 2**32 - 1
UINT64_MAX: Final = 2**64 - 1


def encode_varint(value: int) -> bytes:
    """Encode an int32, zig-zag. ValueError if it is none."""
    if not INT32_MIN <= value <= INT32_MAX:
        raise ValueError(f"{value} is not an int32")
    return _encode(value << 1 ^ value >> 31)


def encode_varlong(value: int) -> bytes:
    """Encode an int64, zig-zag. ValueError if it is none."""
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError(f"{value} is not an int64")
    return _encode(value << 1 ^ value >> 63)


def encode_unsigned_varint(value: int) -> bytes:
    """Encode a uint32 as it is. ValueError if it is none."""
    if not 0 <= value <= UINT32_MAX:
        raise ValueError(f"{value} is not a uint32")
    return _encode(value)


def decode_varint(buffer: Buffer, position: int = 0) -> tuple[int, int]:
    """Return the zig-zag int32 at `position`, and the position after it.

    Raises:
        CorruptMessageError: the bytes end inside it, or it does not fit an int32.
    """
    raw, position = decode_unsigned_varint(buffer, position)
    return raw >> 1 ^ -(raw & 1), position


def decode_varlong(buffer: Buffer, position: int = 0) -> tuple[int, int]:
    """Return the zig-zag int64 at `position`, and the position after it.

    Raises:
        CorruptMessageError: the bytes end inside it, or it does not fit an int64.
    """
    try:
        raw, last = raw_varlong(buffer, position)
    except IndexError:
        raise CorruptMessageError(position, "the bytes end inside a varlong") from None
    except ValueError as error:
        raise CorruptMessageError(position, str(error)) from None
    return raw >> 1 ^ -(raw & 1), last + 1


def decode_unsigned_varint(buffer: Buffer, position: int = 0) -> tuple[int, int]:
    """Return the uint32 at `position`, and the position after it.

    Raises:
        CorruptMessageError: the bytes end inside it, or it does not fit a uint32.
    """
    try:
        raw, last = raw_varint(buffer, position)
    except IndexError:
        raise CorruptMessageError(position, "the bytes end inside a varint") from None
    except ValueError as error:
        raise CorruptMessageError(position, str(error)) from None
    return raw, last + 1


def size_of_varint(value: int) -> int:
    """Return how many bytes `encode_varint` takes."""
    return _size(value << 1 ^ value >> 31)


def size_of_varlong(value: int) -> int:
    """Return how many bytes `encode_varlong` takes."""
    return _size(value << 1 ^ value >> 63)


def size_of_unsigned_varint(value: int) -> int:
    """Return how many bytes `encode_unsigned_varint` takes."""
    return _size(value)


def raw_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a uint32 as it is, for loops that handle the shortest ones in place.

    Returns the number, *not* unzigzagged, and the position of its *last* byte. IndexError where
    the bytes end inside it, ValueError where it is too long.
    """
    value = shift = 0
    while (byte := buffer[position]) > 0x7F:
        value |= (byte & 0x7F) << shift
        position += 1
        shift += 7
        if shift > 28:
            raise ValueError("a varint is longer than 5 bytes")
    value |= byte << shift
    if value > UINT32_MAX:
        raise ValueError("a varint is larger than 32 bits")
    return value, position


def raw_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """As `raw_varint`, for a uint64 of at most 10 bytes."""
    value = shift = 0
    while (byte := buffer[position]) > 0x7F:
        value |= (byte & 0x7F) << shift
        position += 1
        shift += 7
        if shift > 63:
            raise ValueError("a varlong is longer than 10 bytes")
    value |= byte << shift
    if value > UINT64_MAX:
        raise ValueError("a varlong is larger than 64 bits")
    return value, position


def _encode(raw: int) -> bytes:
    if raw < 0x80:
        return bytes((raw,))
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _size(raw: int) -> int:
    return max(1, (raw.bit_length() + 6) // 7)
