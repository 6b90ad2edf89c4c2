"""Fields that requests and answers of the native protocol share: str16, settings, counts, ends.

`str16` is `length:int16` and as many bytes of UTF-8. Reading raises FrameError for whatever does
not add up, writing raises InvalidRequestError for whatever has no place in its field.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NoReturn

from protocol.errors import FrameError, FrameTooLargeError, InvalidRequestError
from protocol.identifiers import Buffer
from protocol.limits import FRAME_BYTES_MAX, INT16_MAX, INT32_MAX
from protocol.native.request_types import RequestType

STR16_SIZE: Final = struct.Struct(">h")

_SETTING_BYTES_MIN: Final = 2 * STR16_SIZE.size
_REQUEST_HEAD: Final = struct.Struct(">ih")  # size type
_TYPE_BYTES: Final = 2


def read_str16(frame: Buffer, position: int) -> tuple[bytes, int]:
    """Return the string that starts at byte `position`, not decoded, and the position after it.

    Raises:
        FrameError: its size is negative or more than the bytes there.
        struct.error: there is no room for its size.
    """
    (size_bytes,) = STR16_SIZE.unpack_from(frame, position)
    start = position + 2
    text = bytes(frame[start : start + size_bytes])
    if size_bytes < 0 or len(text) != size_bytes:
        bad_frame("a string's size is more than the bytes there")
    return text, start + size_bytes


def read_settings(frame: Buffer, position: int, count: int) -> tuple[list[tuple[str, str]], int]:
    """Return `count` pairs of key and value that start at byte `position`, and the position after.

    Raises:
        FrameError: so many cannot be there, or sizes do not add up.
        UnicodeDecodeError: a text is not UTF-8.
        struct.error: a size is cut.
    """
    check_count(frame, position, count, _SETTING_BYTES_MIN)
    settings: list[tuple[str, str]] = []
    for _ in range(count):
        key, position = read_str16(frame, position)
        value, position = read_str16(frame, position)
        settings.append((key.decode(), value.decode()))
    return settings, position


def check_count(
    frame: Buffer,
    position: int,
    count: int,
    entry_bytes_min: int,
    entries_max: int = INT32_MAX,
) -> None:
    """Check a count against the bytes left, before anything is allocated or looped over.

    Raises:
        FrameError: it is negative, or so many entries cannot be there.
        InvalidRequestError: they may be there, but are more than `entries_max`.
    """
    bytes_left = len(frame) - position
    if count < 0 or count * entry_bytes_min > bytes_left:
        bad_frame(f"{count} entries cannot be in the {bytes_left} bytes that are left")
    if count > entries_max:
        raise InvalidRequestError(f"{count} entries are over the limit of {entries_max}")


def check_end(frame: Buffer, position: int) -> None:
    """Check that a frame ends where its fields do.

    Raises:
        FrameError: it does not.
    """
    if position != len(frame):
        bad_frame(f"{len(frame) - position} bytes more than the fields take up")


def bad_frame(reason: str) -> NoReturn:
    """Raise FrameError."""
    raise FrameError(reason)


def str16(text: str | bytes) -> bytes:
    """Return a string with its size before it.

    Raises:
        InvalidRequestError: more than 32,767 bytes, or text that UTF-8 cannot hold.
    """
    try:
        data = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"not text: {error}") from error
    if len(data) > INT16_MAX:
        raise InvalidRequestError(f"a string of {len(data)} bytes is over {INT16_MAX}")
    return STR16_SIZE.pack(len(data)) + data


def pack(fields: struct.Struct, *values: int) -> bytes:
    """Return the packed values.

    Raises:
        InvalidRequestError: a value does not fit its field.
    """
    try:
        return fields.pack(*values)
    except struct.error as error:
        raise InvalidRequestError(f"a value does not fit its field: {error}") from error


def encode_settings(settings: Mapping[str, str]) -> bytes:
    """Return pairs of key and value, without their count."""
    return b"".join([str16(text) for pair in settings.items() for text in pair])


def whole_request(request_type: RequestType, *parts: bytes) -> bytes:
    """Return a request whose body is these parts; errors as `request_head`."""
    return b"".join((request_head(request_type, sum(map(len, parts))), *parts))


def request_head(request_type: RequestType, body_bytes: int) -> bytes:
    """Return size and type of a request.

    Raises:
        FrameTooLargeError: the broker would close the connection on it.
    """
    frame_bytes = _TYPE_BYTES + body_bytes
    if frame_bytes > FRAME_BYTES_MAX:
        raise FrameTooLargeError(frame_bytes, FRAME_BYTES_MAX)
    return _REQUEST_HEAD.pack(frame_bytes, request_type)
