"""The simple formats, bytes to values and back (R1)."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.compression import Codec, compress
from protocol.errors import (
    CorruptMessageError,
    TidelogError,
    UnsupportedCompressionError,
    UnsupportedForMessageFormatError,
)
from protocol.simple_message_set import (
    FORMAT_0,
    FORMAT_1,
    build_set,
    encode_entries,
    iterate,
    iterate_shallow,
)

VALUES = st.lists(st.binary(max_size=300), max_size=12)
FORMATS = st.sampled_from([FORMAT_0, FORMAT_1])
COMPRESSED = st.sampled_from([codec for codec in Codec if codec != Codec.NONE])

GOLDEN = {
    FORMAT_0: bytes.fromhex(
        "0000000000000007 0000000e 00 cbf43926 313233343536373839"
        "0000000000000008 00000005 00 00000000"
    ),
    FORMAT_1: bytes.fromhex(
        "0000000000000007 0000000f 01 00 cbf43926 313233343536373839"
        "0000000000000008 00000006 01 00 00000000"
    ),
}
"""Put together by hand; cbf43926 is CRC-32's published check value."""


def values_of(message_set: bytes, message_format: int) -> list[tuple[int, bytes]]:
    return [(offset, bytes(value)) for offset, value in iterate(message_set, message_format)]


@pytest.mark.parametrize("message_format", [FORMAT_0, FORMAT_1])
def test_given_golden_bytes_when_built_and_read_then_they_agree(message_format):
    """R1: both layouts, byte for byte."""
    golden = GOLDEN[message_format]

    built = build_set([b"123456789", None], format=message_format, first_offset=7)
    read = values_of(golden, message_format)

    assert built == golden
    assert read == [(7, b"123456789"), (8, b"")]


def test_given_a_gzip_message_when_built_then_the_layout_is_as_ruled():
    """R1: attributes hold the codec, and the CRC is of the compressed payload."""
    message_set = build_set([b"one", b"two"], format=FORMAT_1, codec=Codec.GZIP, first_offset=40)

    offset, size, magic, attributes, crc = struct.unpack_from(">qibBI", message_set)
    payload = message_set[18:]
    inner = zlib.decompress(payload, wbits=31)

    assert (offset, size, magic, attributes) == (41, 6 + len(payload), 1, 1)
    assert crc == zlib.crc32(payload)
    assert inner == build_set([b"one", b"two"], format=FORMAT_1, first_offset=40)


@given(values=VALUES, message_format=FORMATS, first_offset=st.integers(0, 2**40))
def test_given_values_when_built_then_they_come_back(values, message_format, first_offset):
    """R1: payloads and offsets survive in both formats."""
    message_set = build_set(values, format=message_format, first_offset=first_offset)

    read = values_of(message_set, message_format)

    assert read == list(enumerate(values, first_offset))


@given(values=VALUES, codec=COMPRESSED)
def test_given_any_codec_when_iterated_then_deep_sees_messages_and_shallow_one(values, codec):
    """R1: a compressed message wraps a set of plain ones."""
    message_set = build_set(values, format=FORMAT_1, codec=codec, first_offset=5)

    shallow = list(iterate_shallow(message_set, FORMAT_1))

    assert values_of(message_set, FORMAT_1) == list(enumerate(values, 5))
    assert [entry.codec for entry in shallow] == [codec] * bool(values)
    assert [entry.offset for entry in shallow] == [4 + len(values)] * bool(values)


@given(values=VALUES, message_format=FORMATS, data=st.data())
def test_given_a_set_cut_anywhere_when_iterated_then_the_whole_entries_come(
    values, message_format, data
):
    """R28: a cut last entry is left out without an error."""
    message_set = build_set(values, format=message_format)
    size = data.draw(st.integers(0, len(message_set)))

    read = values_of(message_set[:size], message_format)

    whole = [len(build_set(values[: n + 1], format=message_format)) for n in range(len(values))]
    assert read == list(enumerate(values))[: sum(end <= size for end in whole)]


@given(values=VALUES, message_format=FORMATS)
def test_given_offsets_with_gaps_when_encoded_then_they_are_read_back(values, message_format):
    """R1"""
    offsets = [3 * n + 10 for n in range(len(values))]

    encoded = encode_entries(offsets, values, message_format)

    assert encoded.message_count == len(values)
    assert values_of(encoded.data, message_format) == list(zip(offsets, values, strict=True))


def test_given_memoryviews_when_encoded_then_the_bytes_are_the_same():
    """R1: payloads of any buffer type, as they come from a batch."""
    values = [b"tide", memoryview(b"xline")[1:], bytearray(b"mark")]

    encoded = encode_entries(range(3), values, FORMAT_1)

    assert encoded.data == build_set([b"tide", b"line", b"mark"], format=FORMAT_1)


@given(first=VALUES, second=VALUES, message_format=FORMATS)
def test_given_two_sets_when_joined_then_both_are_read(first, second, message_format):
    """R1: a set is its entries one after another, nothing else."""
    joined = build_set(first, format=message_format) + build_set(second, format=message_format)

    read = values_of(joined, message_format)

    assert [value for _, value in read] == first + second


@given(values=st.lists(st.binary(max_size=40), min_size=1, max_size=4), data=st.data())
def test_given_one_flipped_bit_when_read_then_never_a_wrong_value(values, data):
    """R1: the CRC finds any flip in a payload; one in a prefix cuts, refuses or moves an offset."""
    message_format = data.draw(FORMATS)
    damaged = bytearray(build_set(values, format=message_format))
    bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8

    try:
        read = [value for _, value in values_of(bytes(damaged), message_format)]
    except TidelogError:
        read = []

    assert read == values[: len(read)]


@pytest.mark.parametrize("inner_codec", [Codec.GZIP, Codec.LZ4])
def test_given_two_levels_of_compression_when_iterated_then_corrupt(inner_codec):
    """R1: one level deep."""
    nested = build_set([b"deep"], format=FORMAT_1, codec=inner_codec)
    message_set = wrapped(Codec.GZIP, nested)

    with pytest.raises(CorruptMessageError, match="second level"):
        values_of(message_set, FORMAT_1)


def test_given_a_cut_set_inside_when_iterated_then_corrupt():
    """R28: only the outer tail is trimmed; what was compressed was never cut on the way."""
    message_set = wrapped(Codec.SNAPPY, build_set([b"one", b"two"], format=FORMAT_1)[:-1])

    with pytest.raises(CorruptMessageError, match="ends inside"):
        values_of(message_set, FORMAT_1)


@pytest.mark.parametrize("attributes", [0x05, 0x06, 0x07, 0x08, 0x80])
def test_given_unknown_attributes_when_read_then_unsupported(attributes):
    """R1: five codecs, and no other bits."""
    message_set = bytearray(GOLDEN[FORMAT_1])
    message_set[13] = attributes

    with pytest.raises(UnsupportedCompressionError):
        values_of(bytes(message_set), FORMAT_1)


@pytest.mark.parametrize(("message_format", "other"), [(FORMAT_0, FORMAT_1), (FORMAT_1, FORMAT_0)])
def test_given_the_other_format_when_read_then_corrupt(message_format, other):
    """R2: nobody guesses the format."""
    with pytest.raises(CorruptMessageError, match="magic"):
        values_of(GOLDEN[message_format], other)


@pytest.mark.parametrize("message_format", [-1, 2, 3])
def test_given_a_format_that_is_not_simple_when_used_then_unsupported(message_format):
    """R1: there are two simple formats."""
    with pytest.raises(UnsupportedForMessageFormatError):
        build_set([b"x"], format=message_format)
    with pytest.raises(UnsupportedForMessageFormatError):
        list(iterate(b"", message_format))


def test_given_format_0_when_compressed_then_unsupported():
    """R1: format 0 has no attributes, hence no codec."""
    with pytest.raises(UnsupportedCompressionError):
        build_set([b"x"], format=FORMAT_0, codec=Codec.GZIP)


@given(data=st.binary(max_size=200), message_format=FORMATS)
def test_given_any_bytes_when_iterated_then_values_or_our_errors(data, message_format):
    """R1: hostile bytes raise nothing else."""
    try:
        values_of(data, message_format)
        list(iterate_shallow(data, message_format))
    except TidelogError:
        pass


@given(data=st.binary(max_size=100), codec=COMPRESSED, compressed=st.booleans())
def test_given_any_bytes_in_a_wrapper_when_iterated_then_values_or_our_errors(
    data, codec, compressed
):
    """R1: hostile bytes behind a right CRC raise nothing else, compressed or not."""
    payload = compress(codec, data) if compressed else data
    message_set = entry(codec, payload)

    try:
        values_of(message_set, FORMAT_1)
    except TidelogError:
        pass


def wrapped(codec: Codec, inner_set: bytes) -> bytes:
    return entry(codec, compress(codec, inner_set))


def entry(codec: int, payload: bytes) -> bytes:
    header = struct.pack(">qibBI", 0, 6 + len(payload), 1, codec, zlib.crc32(payload))
    return header + payload
