"""The reader of the produce path: everything verified, in slices (R1, R28)."""

from __future__ import annotations

import struct
import zlib
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.compression import Codec, compress
from protocol.errors import (
    CorruptMessageError,
    MessageTooLargeError,
    TidelogError,
    UnsupportedCompressionError,
)
from protocol.simple_message_set import FORMAT_0, FORMAT_1, build_set, iterate
from protocol.simple_set_reader import (
    SLICE_BYTES,
    SimpleSetInfo,
    SimpleSetReader,
    check_set,
)

FORMATS = st.sampled_from([FORMAT_0, FORMAT_1])
VALUES = st.lists(st.binary(max_size=60), max_size=10)
RUNS = st.lists(st.tuples(VALUES, st.sampled_from(list(Codec))), max_size=5)
"""Sets one after another, each plain or in one compressed message."""


def read_all(reader: SimpleSetReader) -> list[bytes]:
    payloads: list[bytes] = []
    while not reader.is_done:
        payloads += map(bytes, reader.next_slice())
    return payloads


def set_of(runs: list[tuple[list[bytes], Codec]]) -> bytes:
    return b"".join(build_set(values, format=FORMAT_1, codec=codec) for values, codec in runs)


@given(values=VALUES, message_format=FORMATS, slice_bytes=st.integers(1, 200))
def test_given_slices_of_any_size_when_read_then_every_payload_once(
    values, message_format, slice_bytes
):
    """R28: what is found does not depend on the slices."""
    message_set = build_set(values, format=message_format)

    reader = SimpleSetReader(message_set, message_format, slice_bytes=slice_bytes)

    assert read_all(reader) == values
    assert reader.info == (len(values), len(values), len(message_set), Codec.NONE)


@given(runs=RUNS, slice_bytes=st.integers(1, 300))
def test_given_plain_and_compressed_messages_when_read_then_all_come_in_order(runs, slice_bytes):
    """R28: counts are of plain messages and of entries; the codec is the last entry's."""
    message_set = set_of(runs)
    entries = [codec for values, codec in runs for _ in (values if codec == 0 else values[:1])]

    reader = SimpleSetReader(message_set, FORMAT_1, slice_bytes=slice_bytes)

    assert read_all(reader) == [value for values, _ in runs for value in values]
    assert reader.info == SimpleSetInfo(
        message_count=sum(len(values) for values, _ in runs),
        shallow_count=len(entries),
        valid_bytes=len(message_set),
        codec=entries[-1] if entries else Codec.NONE,
    )


@pytest.mark.parametrize("message_format", [FORMAT_0, FORMAT_1])
def test_given_a_large_set_when_read_then_slices_are_of_about_64_kb(message_format):
    """R28: one slice never works through much more than it is allowed."""
    message_set = memoryview(build_set([b"v" * 200] * 2000, format=message_format))
    entry_bytes = len(message_set) // 2000

    reader = SimpleSetReader(message_set, message_format)
    sizes = []
    while not reader.is_done:
        sizes.append(len(reader.next_slice()) * entry_bytes)

    assert sum(sizes) == len(message_set)
    assert all(SLICE_BYTES <= size < SLICE_BYTES + entry_bytes for size in sizes[:-1])


def test_given_an_empty_set_when_read_then_it_is_done_at_once():
    """R28: an empty set is legal."""
    reader = SimpleSetReader(b"", FORMAT_0)

    assert reader.is_done
    assert reader.next_slice() == []
    assert check_set(b"", FORMAT_1) == (0, 0, 0, Codec.NONE)


@given(runs=RUNS, data=st.data())
def test_given_a_set_cut_anywhere_when_checked_then_the_tail_is_trimmed(runs, data):
    """R28: valid bytes end before the cut entry, and the count says what was kept."""
    message_set = set_of(runs)
    size = data.draw(st.integers(0, len(message_set)))

    info = check_set(message_set[:size], FORMAT_1)

    kept = message_set[: info.valid_bytes]
    assert info.valid_bytes <= size
    assert check_set(kept, FORMAT_1) == info
    assert info.message_count == len(list(iterate(kept, FORMAT_1)))
    if info.valid_bytes < size:  # the next entry is really not whole
        (next_size,) = struct.unpack_from(">i", message_set, info.valid_bytes + 8)
        assert info.valid_bytes + 12 + next_size > size


@given(values=st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=10), data=st.data())
def test_given_a_flipped_payload_bit_when_checked_then_the_set_is_refused(values, data):
    """R28: a bad CRC anywhere refuses the whole set, naming the entry's position."""
    message_format = data.draw(FORMATS)
    message_set = bytearray(build_set(values, format=message_format))
    victim = data.draw(st.integers(0, len(values) - 1))
    start = len(build_set(values[:victim], format=message_format))
    message_set[start + 17 + message_format] ^= 1

    with pytest.raises(CorruptMessageError) as caught:
        check_set(message_set, message_format)

    assert caught.value.position == start


@pytest.mark.parametrize("message_format", [FORMAT_0, FORMAT_1])
@pytest.mark.parametrize("size", [-(2**31), -1, 0, 4])
def test_given_a_size_under_the_minimum_when_checked_then_corrupt(message_format, size):
    """R28: such a size is no cut entry, wherever it stands."""
    good = build_set([b"good"], format=message_format)
    message_set = good + struct.pack(">qi", 1, size) + bytes(10)

    with pytest.raises(CorruptMessageError) as caught:
        check_set(message_set, message_format)

    assert caught.value.position == len(good)


@pytest.mark.parametrize("message_format", [FORMAT_0, FORMAT_1])
def test_given_a_message_at_and_over_the_limit_when_checked_then_only_one_passes(message_format):
    """R29: the limit is for each message without its 12-byte prefix."""
    message_bytes = 5 + message_format + 100
    message_set = build_set([b"x" * 100], format=message_format)

    info = check_set(message_set, message_format, message_bytes_max=message_bytes)
    with pytest.raises(MessageTooLargeError) as caught:
        check_set(message_set, message_format, message_bytes_max=message_bytes - 1)

    assert info.message_count == 1
    assert (caught.value.size_bytes, caught.value.size_bytes_max) == (
        message_bytes,
        message_bytes - 1,
    )


def test_given_an_absurd_size_when_checked_then_too_large_and_not_a_cut_tail():
    """R28: else a flipped size bit in the middle would silently drop the rest."""
    good = build_set([b"good", b"also good"], format=FORMAT_0)
    message_set = bytearray(good)
    message_set[8] = 0x40

    with pytest.raises(MessageTooLargeError):
        check_set(message_set, FORMAT_0, message_bytes_max=1_048_588)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec != Codec.NONE])
def test_given_inner_messages_over_a_limit_when_checked_then_too_large(codec):
    """R29: both limits hold inside compressed messages too."""
    message_set = build_set([b"small", b"x" * 5000], format=FORMAT_1, codec=codec)

    with pytest.raises(MessageTooLargeError):
        check_set(message_set, FORMAT_1, message_bytes_max=5005)
    with pytest.raises(MessageTooLargeError):
        read_all(SimpleSetReader(message_set, FORMAT_1, decompressed_bytes_max=5000))


def test_given_many_compressed_messages_when_read_then_one_limit_is_for_all():
    """R29: small bombs add up."""
    message_set = build_set([b"x" * 1000], format=FORMAT_1, codec=Codec.ZSTD) * 10

    with pytest.raises(MessageTooLargeError):
        read_all(SimpleSetReader(message_set, FORMAT_1, decompressed_bytes_max=9 * 1018))
    enough = SimpleSetReader(message_set, FORMAT_1, decompressed_bytes_max=10 * 1018)

    assert read_all(enough) == [b"x" * 1000] * 10


def test_given_a_large_compressed_message_when_found_then_the_caller_may_decompress_first():
    """R28: so that a thread can do it; the payloads are the same."""
    values = [Random(n).randbytes(400) for n in range(100)]
    large = build_set(values, format=FORMAT_1, codec=Codec.SNAPPY)
    message_set = build_set([b"first"], format=FORMAT_1) + large
    reader = SimpleSetReader(message_set, FORMAT_1)

    first = reader.next_slice()
    pending_bytes = reader.pending_bytes
    reader.decompress_pending()

    assert first == [b"first"]
    assert pending_bytes == len(large) - 18
    assert reader.pending_bytes == 0
    assert read_all(reader) == values


def test_given_few_bytes_that_grow_beyond_measure_when_found_then_the_caller_is_warned_first():
    """R28: a bomb of some kilobytes must not hold up the loop either."""
    values = [bytes(200_000)] * 20
    message_set = build_set(values, format=FORMAT_1, codec=Codec.ZSTD)
    reader = SimpleSetReader(message_set, FORMAT_1)

    first = reader.next_slice()
    pending_bytes = reader.pending_bytes
    rest = read_all(reader)

    assert len(message_set) < 16 * 1024
    assert first == []
    assert pending_bytes > 16 * 1024
    assert rest == values


def test_given_very_many_tiny_compressed_messages_when_read_then_a_slice_takes_few_of_them():
    """R28: starting a codec costs more than the bytes of a tiny message."""
    message_set = build_set([b""], format=FORMAT_1, codec=Codec.SNAPPY) * 3000

    reader = SimpleSetReader(message_set, FORMAT_1)
    counts = []
    while not reader.is_done:
        counts.append(len(reader.next_slice()))

    assert sum(counts) == 3000
    assert max(counts) <= SLICE_BYTES // 256


def test_given_damage_inside_a_compressed_message_when_checked_then_its_position_is_named():
    """R28: positions are of the set that the client sent."""
    inner = bytearray(build_set([b"one", b"two"], format=FORMAT_1))
    inner[-1] ^= 1
    good = build_set([b"good"], format=FORMAT_1)
    message_set = good + wrapped(Codec.GZIP, bytes(inner))

    with pytest.raises(CorruptMessageError, match="inner byte 21") as caught:
        check_set(message_set, FORMAT_1)

    assert caught.value.position == len(good)


def test_given_bytes_that_are_not_of_the_codec_when_checked_then_corrupt():
    """R28: a right CRC over what no codec can read."""
    message_set = build_set([b"x" * 50], format=FORMAT_1, codec=Codec.GZIP)
    broken = wrapped(Codec.GZIP, b"", payload=message_set[18:-3])

    with pytest.raises(CorruptMessageError) as caught:
        check_set(broken, FORMAT_1)

    assert caught.value.position == 0


def test_given_an_unknown_codec_inside_the_set_when_checked_then_unsupported():
    """R1: the whole set is refused."""
    good = build_set([b"good"], format=FORMAT_1)

    with pytest.raises(UnsupportedCompressionError):
        check_set(good + wrapped(7, b"", payload=b"abc") + good, FORMAT_1)


def stored_bodies(message_set: bytes) -> list[bytes]:
    """Return what the CRC of each entry of format 1 covers: behind magic, codec and the CRC."""
    bodies, position = [], 0
    while position < len(message_set):
        size = int.from_bytes(message_set[position + 8 : position + 12], "big")
        bodies.append(bytes(message_set[position + 18 : position + 12 + size]))
        position += 12 + size
    return bodies


@example(runs=[([b"gzip taken for none"], Codec.GZIP)], position=13, flip=Codec.GZIP)
@given(runs=RUNS, position=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_given_one_damaged_byte_when_checked_then_the_bytes_kept_are_sound_or_our_error(
    runs, position, flip
):
    """R28: mutated sets raise nothing but our errors, and never alter a payload.

    The byte that names the codec is outside of the CRC: by that one a compressed message may come
    out as it is stored.
    """
    message_set = bytearray(set_of(runs))
    bodies = stored_bodies(message_set)
    if message_set:
        message_set[position % len(message_set)] ^= flip
    values = [value for run, _ in runs for value in run]
    reader = SimpleSetReader(message_set, FORMAT_1, message_bytes_max=100_000)

    try:
        payloads = read_all(reader)
    except TidelogError:
        payloads = []

    assert all(payload in values + bodies for payload in payloads)


@given(message_set=st.binary(max_size=200), message_format=FORMATS)
def test_given_any_bytes_when_checked_then_a_value_or_our_error(message_set, message_format):
    """R28: and what is said to be valid is valid."""
    try:
        info = check_set(message_set, message_format)
    except TidelogError:
        return

    assert info.valid_bytes <= len(message_set)
    assert check_set(message_set[: info.valid_bytes], message_format) == info


def wrapped(codec: int, inner_set: bytes, payload: bytes | None = None) -> bytes:
    body = compress(codec, inner_set) if payload is None else payload
    return struct.pack(">qibBI", 0, 6 + len(body), 1, codec, zlib.crc32(body)) + body
