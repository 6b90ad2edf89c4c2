"""Compression of batches and sets: gzip, snappy, lz4, zstd; what comes out is bounded.

Here are the codecs' numbers, which nearly every module needs. `compressors`, which does the work,
is imported when it is first used: its libraries would delay the start of every daemon and client,
and many never need them. Where a few milliseconds matter, import it beforehand.
"""

from __future__ import annotations

import enum

from protocol import limits
from protocol.errors import MessageTooLargeError, UnsupportedCompressionError
from protocol.identifiers import Buffer

__all__ = ["Codec", "codec_from_name", "compress", "decompress"]


class Codec(enum.IntEnum):
    """The codec in the lowest three bits of a batch's or message's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def codec_from_name(name: str) -> Codec:
    """Return the codec of a setting's value: none, uncompressed, gzip, snappy, lz4 or zstd.

    Raises:
        UnsupportedCompressionError: any other name.
    """
    if name == "uncompressed":
        return Codec.NONE
    try:
        return Codec[name.upper()]
    except KeyError:
        raise UnsupportedCompressionError(f"there is no compression codec {name!r}") from None


def compress(codec: int, data: Buffer) -> bytes:
    """Compress `data` the fast way that every Kafka client can read.

    Raises:
        UnsupportedCompressionError: a codec number that the format does not define.
    """
    if codec == Codec.NONE:
        return bytes(data)
    from protocol import compressors

    return compressors.compress(codec, data)


def decompress(
    codec: int, data: Buffer, *, size_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX
) -> bytes:
    """Return what `data` was before it was compressed.

    Args:
        codec: A `Codec`, or its number from the wire.
        data: Exactly one compressed payload: bytes left over are an error.
        size_bytes_max: The most that may come out. While working, a few MiB more may be held.

    Raises:
        CorruptMessageError: the bytes are not of this codec, are cut short, or too many.
        MessageTooLargeError: more than `size_bytes_max` bytes would come out.
        UnsupportedCompressionError: a codec number that the format does not define.
    """
    if codec == Codec.NONE:
        if len(data) > size_bytes_max:
            raise MessageTooLargeError(len(data), size_bytes_max)
        return bytes(data)
    from protocol import compressors

    return compressors.decompress(codec, data, size_bytes_max)
