"""Compressors: gzip, snappy, lz4, zstd; what comes out is bounded. `compression` has them for all.

    gzip    RFC 1952, concatenated members too
    snappy  raw, or in the framing of snappy-java ("xerial"):
            \\x82SNAPPY\\x00  version:i32  lowest_compatible:i32  { size:i32 raw_snappy:size }
    lz4     the frame format, one frame
    zstd    RFC 8878, concatenated frames, with or without a content size

Libraries are those that measured best: zlib, cramjam (raw snappy), lz4, zstandard. All take any
buffer and release the interpreter lock.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable
from typing import Any, Final, cast

import cramjam
import lz4.frame
import zstandard

from protocol.compression import Codec
from protocol.errors import (
    CorruptMessageError,
    MessageTooLargeError,
    UnsupportedCompressionError,
)
from protocol.identifiers import Buffer

__all__ = ["compress", "decompress", "decompress_zstd_into"]

GZIP_LEVEL: Final = 1
"""2.7 times the speed of level 6, for 10 % more bytes (log lines, JSON)."""
ZSTD_LEVEL: Final = 3
"""zstd's own default: better than gzip's best at five times its speed."""
GZIP_WBITS: Final = 31
"""zlib's way to say: with a gzip header and trailer, window of 32 KiB."""

GZIP_RATIO_MAX: Final = 1032
"""Deflate gives at most 258 bytes for 2 bits (zlib's technical notes)."""
ZSTD_RATIO_MAX: Final = 32 * 1024
"""A zstd block gives at most 128 KiB, and takes 4 bytes at least (RFC 8878, 3.1.1.2)."""
SNAPPY_RATIO_MAX: Final = 22
"""A snappy copy gives at most 64 bytes for 3."""
LZ4_RATIO_MAX: Final = 256
"""An lz4 length byte stands for at most 255 bytes."""
PIECE_BYTES_MIN: Final = 512
"""The least that is given to a decompressor at once: with zstd's worst ratio 16 MiB come out."""
LZ4_STEP_BYTES_MIN: Final = 64 * 1024

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES: Final = 16
XERIAL_BLOCK_SIZE: Final = struct.Struct(">i")


class _Contexts(threading.local):
    """zstd's contexts cost more than small batches do, and must not be shared by threads."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_contexts = _Contexts()


def compress(codec: int, data: Buffer) -> bytes:
    """Compress `data`; `codec` is not NONE. Errors as those of `compression.compress`.

    snappy is written raw. librdkafka writes it so, hence every consumer reads it (snappy-java's
    SnappyInputStream falls back to raw where its magic is missing), and it costs a quarter of
    the framed form. lz4 blocks are independent of each other: the Java client refuses linked
    ones.
    """
    if codec == Codec.GZIP:
        return zlib.compress(data, GZIP_LEVEL, GZIP_WBITS)
    if codec == Codec.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == Codec.LZ4:
        return cast(bytes, lz4.frame.compress(data, store_size=True, block_linked=False))
    if codec == Codec.ZSTD:
        return _contexts.compressor.compress(data)
    raise UnsupportedCompressionError(f"codec {codec} is not defined")


def decompress(codec: int, data: Buffer, size_bytes_max: int) -> bytes:
    """Decompress `data`; `codec` is not NONE. Errors as those of `compression.decompress`."""
    if codec == Codec.GZIP:
        return _decompress_frames(_new_gzip, data, size_bytes_max, GZIP_RATIO_MAX)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(data, size_bytes_max)
    if codec == Codec.LZ4:
        return _decompress_lz4(data, size_bytes_max)
    if codec == Codec.ZSTD:
        return _decompress_zstd(data, size_bytes_max)
    raise UnsupportedCompressionError(f"codec {codec} is not defined")


def _new_gzip() -> Any:
    return zlib.decompressobj(GZIP_WBITS)


def _decompress_frames(
    new_decompressor: Callable[[], Any], data: Buffer, size_bytes_max: int, ratio_max: int
) -> bytes:
    """Decompress one frame after another, in pieces so small that the limit is noticed in time.

    A piece also bounds what is copied for each frame as "unused data"; it starts small and
    doubles, so that a payload of very many tiny frames costs no more than its size.
    """
    view = memoryview(data)
    parts: list[bytes] = []
    position, size_bytes = 0, 0
    while position < len(view) or not parts:
        decompressor = new_decompressor()
        piece_bytes = PIECE_BYTES_MIN
        while not decompressor.eof:
            piece = view[position : position + piece_bytes]
            if not piece:
                raise CorruptMessageError(position, "compressed data is cut short")
            try:
                part = decompressor.decompress(piece)
            except (zlib.error, zstandard.ZstdError) as error:
                raise CorruptMessageError(position, str(error)) from None
            size_bytes += len(part)
            if size_bytes > size_bytes_max:
                raise MessageTooLargeError(size_bytes, size_bytes_max)
            parts.append(part)
            position += len(piece) - len(decompressor.unused_data)
            room = max(PIECE_BYTES_MIN, (size_bytes_max - size_bytes) // ratio_max)
            piece_bytes = min(piece_bytes * 2, room)
    return b"".join(parts)


def _decompress_zstd(data: Buffer, size_bytes_max: int) -> bytes:
    try:
        size_bytes = zstandard.frame_content_size(data)
    except zstandard.ZstdError as error:
        raise CorruptMessageError(0, str(error)) from None
    if size_bytes > size_bytes_max:
        raise MessageTooLargeError(size_bytes, size_bytes_max)
    if 0 < size_bytes <= len(data) * ZSTD_RATIO_MAX:
        try:
            return _contexts.decompressor.decompress(data, allow_extra_data=False)
        except zstandard.ZstdError:
            pass  # damaged, or another frame follows: the slow way below tells
    # A fresh context, for all frames: a kept one would keep a window of up to 128 MiB, as large as
    # a frame asks, and one for each would cost 20 times what an empty frame takes.
    new_decompressor = zstandard.ZstdDecompressor().decompressobj
    return _decompress_frames(new_decompressor, data, size_bytes_max, ZSTD_RATIO_MAX)


def decompress_zstd_into(data: Buffer, target: memoryview) -> int | None:
    """Decompress one frame to the beginning of other memory; return how many bytes it has.

    Returns:
        None: it does not say how many, it needs as much room or more, or it is damaged, or other
        bytes follow it. `decompress` then has the answer; what the target holds is undefined.
    """
    try:
        size_bytes = zstandard.frame_content_size(data)
        if not 0 < size_bytes < len(target):
            return None
        reader = _contexts.decompressor.stream_reader(data, read_across_frames=True)
        read = reader.readinto(target[: size_bytes + 1])  # one more, to notice a second frame
    except zstandard.ZstdError:
        return None
    return size_bytes if read == size_bytes else None


def _decompress_lz4(data: Buffer, size_bytes_max: int) -> bytes:
    decompressor = lz4.frame.LZ4FrameDecompressor()
    # The library allocates all that it is allowed, so begin with what is said or likely.
    step_bytes = max(LZ4_STEP_BYTES_MIN, 4 * len(data), _lz4_content_bytes(data) + 1)
    parts: list[bytes] = []
    size_bytes = 0
    pending: Buffer = data
    while not decompressor.eof:
        room = size_bytes_max - size_bytes + 1  # one more, to notice the limit
        try:
            part = decompressor.decompress(pending, max_length=min(step_bytes, room))
        except (RuntimeError, MemoryError, ValueError) as error:
            raise CorruptMessageError(0, str(error)) from None
        size_bytes += len(part)
        if size_bytes > size_bytes_max:
            raise MessageTooLargeError(size_bytes, size_bytes_max)
        parts.append(part)
        pending = b""
        step_bytes *= 2
        if not part and not decompressor.eof:
            raise CorruptMessageError(len(data), "compressed data is cut short")
    if decompressor.unused_data:
        position = len(data) - len(decompressor.unused_data)
        raise CorruptMessageError(position, "bytes follow the lz4 frame")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _lz4_content_bytes(data: Buffer) -> int:
    """Return the content size in a frame's header; 0 if there is none or it cannot be true."""
    try:
        size_bytes = cast(int, lz4.frame.get_frame_info(data)["content_size"])
    except RuntimeError:
        return 0
    return size_bytes if size_bytes <= len(data) * LZ4_RATIO_MAX else 0


def _decompress_snappy(data: Buffer, size_bytes_max: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _decompress_snappy_block(view, 0, size_bytes_max, size_bytes_max)
    if len(view) < XERIAL_HEADER_BYTES:
        raise CorruptMessageError(0, "the header of framed snappy is cut short")
    parts: list[bytes] = []
    position, room = XERIAL_HEADER_BYTES, size_bytes_max
    while position < len(view):
        if len(view) - position < XERIAL_BLOCK_SIZE.size:
            raise CorruptMessageError(position, "the size of a snappy block is cut short")
        (block_bytes,) = XERIAL_BLOCK_SIZE.unpack_from(view, position)
        start = position + XERIAL_BLOCK_SIZE.size
        if not 0 < block_bytes <= len(view) - start:
            raise CorruptMessageError(position, f"a snappy block of {block_bytes} bytes")
        block = view[start : start + block_bytes]
        parts.append(_decompress_snappy_block(block, start, room, size_bytes_max))
        room -= len(parts[-1])
        position = start + block_bytes
    return b"".join(parts)


def _decompress_snappy_block(
    block: memoryview, position: int, room: int, size_bytes_max: int
) -> bytes:
    try:
        size_bytes = cramjam.snappy.decompress_raw_len(block)
        if size_bytes > len(block) * SNAPPY_RATIO_MAX:  # before so much is allocated
            raise CorruptMessageError(position, f"{size_bytes} bytes from {len(block)} of snappy")
        if size_bytes > room:
            raise MessageTooLargeError(size_bytes_max - room + size_bytes, size_bytes_max)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptMessageError(position, str(error)) from None
