"""Compression: all codecs there and back, golden frames, and output that stays bounded."""

from __future__ import annotations

import gzip
import struct
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from protocol.compression import Codec, codec_from_name, compress, decompress
from protocol.compressors import decompress_zstd_into
from protocol.errors import (
    CorruptMessageError,
    MessageTooLargeError,
    TidelogError,
    UnsupportedCompressionError,
)

COMPRESSED = [codec for codec in Codec if codec != Codec.NONE]
MIB = 1024 * 1024
LINES = b"".join(b'{"line":%d,"level":"INFO","text":"tide %d"}\n' % (i, i * i) for i in range(3000))


def xerial(*blocks: bytes) -> bytes:
    """Frame raw snappy blocks as snappy-java does."""
    framed = [struct.pack(">i", len(block)) + block for block in blocks]
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(framed)


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def zstd_stream(data: bytes) -> bytes:
    """A zstd frame without content size, as streaming writers make."""
    compressor = zstandard.ZstdCompressor().compressobj()
    return bytes(compressor.compress(data) + compressor.flush())


@pytest.mark.parametrize("codec", Codec)
@given(data=st.binary(max_size=300), times=st.integers(1, 400))
def test_given_any_bytes_when_compressed_then_they_come_back(
    codec: Codec, data: bytes, times: int
) -> None:
    original = data * times

    compressed = compress(codec, memoryview(bytearray(original)))

    assert decompress(codec, compressed) == original
    assert decompress(codec, memoryview(bytearray(compressed))) == original
    assert decompress(int(codec), compressed, size_bytes_max=len(original)) == original


@pytest.mark.parametrize(
    ("codec", "golden"),
    [
        # gzip: header, one stored block, CRC-32, size (RFC 1952)
        (Codec.GZIP, "1f8b08000000000000ff 010500faff 68656c6c6f 86a61036 05000000"),
        # snappy: length 5, a literal of 5 bytes (its format_description.txt)
        (Codec.SNAPPY, "05 10 68656c6c6f"),
        # the same in snappy-java's frame, in blocks of 2 and 3 bytes
        (
            Codec.SNAPPY,
            "82534e4150505900 00000001 00000001 00000004 02046865 00000005 03086c6c6f",
        ),
        # lz4: header with independent blocks of 64 KiB, a stored block, the end mark
        (Codec.LZ4, "04224d18 6040 82 05000080 68656c6c6f 00000000"),
        # zstd: a single segment of 5 bytes, a last raw block (RFC 8878)
        (Codec.ZSTD, "28b52ffd 2005 290000 68656c6c6f"),
        # the same with a window in place of the content size
        (Codec.ZSTD, "28b52ffd 0058 290000 68656c6c6f"),
        (Codec.NONE, "68656c6c6f"),
    ],
)
def test_given_golden_bytes_when_decompressed_then_the_text(codec: Codec, golden: str) -> None:
    text = decompress(codec, bytes.fromhex(golden))

    assert text == b"hello"


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Codec.GZIP, gzip.compress(LINES[:50_000], 9) + gzip.compress(LINES[50_000:])),
        (Codec.GZIP, b"".join(gzip.compress(LINES[i : i + 50]) for i in range(0, len(LINES), 50))),
        (Codec.SNAPPY, raw_snappy(LINES)),
        (
            Codec.SNAPPY,
            xerial(*(raw_snappy(LINES[i : i + 32768]) for i in range(0, len(LINES), 32768))),
        ),
        (Codec.LZ4, lz4.frame.compress(LINES, compression_level=9, content_checksum=True)),
        (Codec.LZ4, lz4.frame.compress(LINES, store_size=False, block_checksum=True)),
        (Codec.ZSTD, zstandard.ZstdCompressor(level=19, write_checksum=True).compress(LINES)),
        (Codec.ZSTD, zstd_stream(LINES)),
        (Codec.ZSTD, zstd_stream(LINES[:9]) + zstandard.ZstdCompressor().compress(LINES[9:])),
        (Codec.ZSTD, zstandard.compress(LINES[:999]) + zstandard.compress(LINES[999:])),
    ],
)
def test_given_what_other_writers_make_when_decompressed_then_the_lines(
    codec: Codec, data: bytes
) -> None:
    text = decompress(codec, data)

    assert text == LINES


def test_given_a_large_payload_when_compressed_to_lz4_then_blocks_are_independent() -> None:
    """The Java client refuses linked blocks."""
    compressed = compress(Codec.LZ4, LINES)

    frame = lz4.frame.get_frame_info(compressed)

    assert len(LINES) > 2 * frame["block_size"]
    assert not frame["block_linked"]
    assert frame["content_size"] == len(LINES)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_given_a_limit_when_decompressed_then_it_is_kept_to_the_byte(codec: Codec) -> None:
    compressed = compress(codec, LINES)

    with pytest.raises(MessageTooLargeError) as raised:
        decompress(codec, compressed, size_bytes_max=len(LINES) - 1)

    assert raised.value.size_bytes_max == len(LINES) - 1
    assert raised.value.size_bytes >= len(LINES)
    assert decompress(codec, compressed, size_bytes_max=len(LINES)) == LINES


def test_given_no_compression_when_over_the_limit_then_refused() -> None:
    with pytest.raises(MessageTooLargeError):
        decompress(Codec.NONE, b"12345", size_bytes_max=4)


BOMB_BYTES = 64 * MIB
BOMBS = {
    "gzip": (Codec.GZIP, gzip.compress(bytes(BOMB_BYTES), 9)),
    "snappy": (Codec.SNAPPY, raw_snappy(bytes(BOMB_BYTES))),
    "xerial": (Codec.SNAPPY, xerial(*[raw_snappy(bytes(MIB))] * (BOMB_BYTES // MIB))),
    "lz4": (Codec.LZ4, lz4.frame.compress(bytes(BOMB_BYTES), store_size=False)),
    "zstd": (Codec.ZSTD, zstandard.compress(bytes(BOMB_BYTES))),
    "zstd stream": (Codec.ZSTD, zstd_stream(bytes(BOMB_BYTES))),
    "zstd frames": (Codec.ZSTD, zstd_stream(bytes(MIB)) * (BOMB_BYTES // MIB)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_given_a_bomb_when_decompressed_then_little_memory_is_taken(name: str) -> None:
    codec, bomb = BOMBS[name]

    tracemalloc.start()
    try:
        with pytest.raises(MessageTooLargeError):
            decompress(codec, bomb, size_bytes_max=MIB)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 20 * MIB


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Codec.SNAPPY, bytes.fromhex("ffffffff0f") + bytes(40)),  # says 4 GiB
        (Codec.SNAPPY, xerial(bytes.fromhex("ffffff7f") + bytes(40))),  # says 256 MiB
        (Codec.ZSTD, bytes.fromhex("28b52ffd a0 ffffff0f 010000")),  # says 256 MiB
        (Codec.LZ4, bytes.fromhex("04224d18 6840 ffffff0f00000000 1f 00000000")),
    ],
)
def test_given_a_false_content_size_when_decompressed_then_corrupt(
    codec: Codec, data: bytes
) -> None:
    with pytest.raises(CorruptMessageError):
        decompress(codec, data)


@pytest.mark.parametrize(
    ("codec", "member"),
    [(Codec.GZIP, gzip.compress(b"")), (Codec.ZSTD, zstd_stream(b""))],
    ids=["gzip", "zstd"],
)
def test_given_very_many_tiny_members_when_decompressed_then_work_stays_linear(
    codec: Codec, member: bytes
) -> None:
    """What follows a member must not be copied for each of them: that is 100 times the work."""
    members = member * 100_000

    started = time.process_time()
    text = decompress(codec, members)
    seconds = time.process_time() - started

    assert text == b""
    assert seconds < 5


@pytest.mark.parametrize("codec", COMPRESSED)
@given(cut=st.integers(0, 10_000))
def test_given_a_payload_cut_short_when_decompressed_then_corrupt(codec: Codec, cut: int) -> None:
    compressed = compress(codec, LINES[:2000])
    cut %= len(compressed)

    with pytest.raises(CorruptMessageError):
        decompress(codec, compressed[:cut])


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("trailing", [b"\0", b"xyz", bytes(100)])
def test_given_bytes_after_the_payload_when_decompressed_then_corrupt(
    codec: Codec, trailing: bytes
) -> None:
    compressed = compress(codec, LINES[:2000])

    with pytest.raises(CorruptMessageError):
        decompress(codec, compressed + trailing)


@pytest.mark.parametrize(
    "data",
    [
        b"\x82SNAPPY\x00",
        xerial() + b"\0\0\0",
        xerial() + struct.pack(">i", 0),
        xerial() + struct.pack(">i", -1),
        xerial() + struct.pack(">i", 5) + b"1234",
        xerial(b"\xff\xff"),
    ],
)
def test_given_a_broken_snappy_frame_when_decompressed_then_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptMessageError):
        decompress(Codec.SNAPPY, data)


def test_given_an_empty_snappy_frame_when_decompressed_then_nothing() -> None:
    assert decompress(Codec.SNAPPY, xerial()) == b""


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=st.data())
def test_given_mutated_bytes_when_decompressed_then_a_value_or_our_error(
    codec: Codec, data: st.DataObject
) -> None:
    mutated = bytearray(compress(codec, LINES[:1000]))
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))

    try:
        text = decompress(codec, mutated, size_bytes_max=MIB)
    except TidelogError:
        return

    assert len(text) <= MIB


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=st.binary(max_size=60), with_magic=st.booleans())
def test_given_random_bytes_when_decompressed_then_a_value_or_our_error(
    codec: Codec, data: bytes, with_magic: bool
) -> None:
    magic = bytes(compress(codec, b""))[:6] if with_magic else b""

    try:
        text = decompress(codec, magic + data, size_bytes_max=MIB)
    except TidelogError:
        return

    assert len(text) <= MIB


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_given_an_undefined_codec_when_used_then_unsupported(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionError):
        compress(codec, b"x")
    with pytest.raises(UnsupportedCompressionError):
        decompress(codec, b"x")


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd", "ZSTD"])
def test_given_a_codecs_name_when_looked_up_then_the_codec(name: str) -> None:
    assert codec_from_name(name).name == name.upper()


def test_given_kafkas_other_name_for_none_when_looked_up_then_none() -> None:
    assert codec_from_name("uncompressed") is Codec.NONE


@pytest.mark.parametrize("name", ["", "producer", "brotli", "zstd "])
def test_given_another_name_when_looked_up_then_unsupported(name: str) -> None:
    with pytest.raises(UnsupportedCompressionError, match="codec"):
        codec_from_name(name)


def test_given_threads_when_they_compress_at_once_then_no_context_is_shared() -> None:
    def there_and_back(number: int) -> bool:
        text = LINES[number:]
        return decompress(Codec.ZSTD, compress(Codec.ZSTD, text)) == text

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(there_and_back, range(80)))

    assert all(results)


def test_given_a_zstd_frame_when_there_is_room_then_its_bytes_are_put_there_and_no_others() -> None:
    target = bytearray(b"." * (len(LINES) + 2))

    read = decompress_zstd_into(compress(Codec.ZSTD, LINES), memoryview(target))

    assert (read, bytes(target[:-2]), bytes(target[-1:])) == (len(LINES), LINES, b".")


@pytest.mark.parametrize(
    "data",
    [
        zstd_stream(LINES),
        zstandard.compress(LINES[:9]) + zstandard.compress(LINES[9:20]),
        zstandard.compress(LINES) + b"more",
        zstandard.compress(LINES)[:-9],
        zstandard.compress(b""),
        b"",
        LINES,
    ],
    ids=["no size", "two frames", "more behind it", "cut", "empty", "nothing", "none"],
)
def test_given_what_is_not_one_whole_zstd_frame_when_put_into_room_then_it_is_left(data) -> None:
    assert decompress_zstd_into(data, memoryview(bytearray(2 * len(LINES)))) is None


@pytest.mark.parametrize("missing", [0, 1, 100])
def test_given_too_little_room_when_a_zstd_frame_is_put_into_it_then_it_is_left(missing) -> None:
    target = memoryview(bytearray(len(LINES) - missing))

    assert decompress_zstd_into(zstandard.compress(LINES), target) is None
