"""LZ4 frames of magic 0 messages: their header checksum is wrong on purpose (KAFKA-3160, R3).

    0        4      5     6                14             18
    +--------+------+-----+-----------------+--------------+----+-------- ... --------+
    | magic  | FLG  | BD  | content size u64 | dictionary id | HC | blocks, end mark   |
    +--------+------+-----+-----------------+--------------+----+-------- ... --------+
                            if FLG bit 3      if FLG bit 0

HC is the second byte of the XXH32 of all header bytes from FLG on (LZ4 frame format 1.6.1, "Header
Checksum"). Kafka before 0.10 also took in the four magic bytes; its clients do so with magic 0 to
this day, and check nothing there. A reader must mend HC before a library will take the frame.
"""

from __future__ import annotations

from typing import Final

from protocol.identifiers import Buffer

__all__ = ["header_checksum", "with_legacy_checksum", "with_right_checksum", "xxh32"]

FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
FLAGS_POSITION: Final = 4
FLAG_CONTENT_SIZE: Final = 0x08
FLAG_DICTIONARY_ID: Final = 0x01

_UINT32: Final = 0xFFFF_FFFF
_PRIME_1: Final = 0x9E37_79B1
_PRIME_2: Final = 0x85EB_CA77
_PRIME_3: Final = 0xC2B2_AE3D
_PRIME_4: Final = 0x27D4_EB2F
_PRIME_5: Final = 0x1656_67B1
_STRIPE_BYTES: Final = 16


def with_right_checksum(frame: Buffer) -> bytes:
    """Return the frame with the header checksum that the LZ4 format asks for."""
    return _with_checksum(frame, FLAGS_POSITION)


def with_legacy_checksum(frame: Buffer) -> bytes:
    """Return the frame with the header checksum that magic 0 readers of old expect."""
    return _with_checksum(frame, 0)


def _with_checksum(frame: Buffer, covered_from: int) -> bytes:
    checksum_position = _checksum_position(frame)
    if checksum_position is None:
        return bytes(frame)  # no frame: the decompressor will say so
    mended = bytearray(frame)
    mended[checksum_position] = header_checksum(frame[covered_from:checksum_position])
    return bytes(mended)


def header_checksum(covered: Buffer) -> int:
    """Return HC for the header bytes it covers."""
    return xxh32(covered) >> 8 & 0xFF


def _checksum_position(frame: Buffer) -> int | None:
    if len(frame) <= FLAGS_POSITION or bytes(frame[:FLAGS_POSITION]) != FRAME_MAGIC:
        return None
    flags = frame[FLAGS_POSITION]
    position = FLAGS_POSITION + 2
    if flags & FLAG_CONTENT_SIZE:
        position += 8
    if flags & FLAG_DICTIONARY_ID:
        position += 4
    return position if position < len(frame) else None


def xxh32(data: Buffer) -> int:
    """Return the XXH32 (seed 0) of `data`; for the few bytes of a frame header, not for more.

    Source: the xxHash specification, 0.1.1, "XXH32 algorithm description".
    """
    position = 0
    if len(data) >= _STRIPE_BYTES:
        lanes = [(_PRIME_1 + _PRIME_2) & _UINT32, _PRIME_2, 0, -_PRIME_1 & _UINT32]
        while position + _STRIPE_BYTES <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[position : position + 4], "little")
                mixed = (lanes[lane] + word * _PRIME_2) & _UINT32
                lanes[lane] = _rotated(mixed, 13) * _PRIME_1 & _UINT32
                position += 4
        rotations = (1, 7, 12, 18)
        total = sum(_rotated(lane, by) for lane, by in zip(lanes, rotations, strict=True))
    else:
        total = _PRIME_5
    total = (total + len(data)) & _UINT32
    while position + 4 <= len(data):
        word = int.from_bytes(data[position : position + 4], "little")
        total = _rotated((total + word * _PRIME_3) & _UINT32, 17) * _PRIME_4 & _UINT32
        position += 4
    for byte in data[position:]:
        total = _rotated((total + byte * _PRIME_5) & _UINT32, 11) * _PRIME_1 & _UINT32
    total = (total ^ total >> 15) * _PRIME_2 & _UINT32
    total = (total ^ total >> 13) * _PRIME_3 & _UINT32
    return total ^ total >> 16


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _UINT32
