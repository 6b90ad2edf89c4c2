"""Formats v0 and v1 cut, flipped, or senseless under a right CRC (R2, R3, R4)."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.compression import Codec, compress
from protocol.errors import (
    BatchCorruptError,
    BatchTruncatedError,
    MessageTooLargeError,
    TidelogError,
    UnsupportedCompressionError,
    UnsupportedForMessageFormatError,
)
from protocol.legacy_message_set import (
    check_entry,
    entry_magic,
    has_magic,
    iterate_entries,
    iterate_records,
    parse_entry,
)
from protocol.legacy_message_set_builder import build_entry, build_set
from protocol.record import Record
from tests.support.legacy import CODECS, MAGICS, records

GOLDEN_V0 = bytes.fromhex(
    "000000000000002a 00000014 1809f803 00 00 00000001 6b 00000005 7469646531"
)
GOLDEN_V1 = bytes.fromhex(
    "000000000000002a 0000001b 8b647e83 01 08 0000018bcfe56800 ffffffff 00000005 7469646531"
)


def entry_of(magic: int, attributes: int, tail: bytes, offset: int = 5) -> bytes:
    """An entry whose CRC is right, whatever comes behind the attributes."""
    covered = bytes([magic, attributes]) + tail
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered


@given(some=records(min_size=1), magic=MAGICS, codec=CODECS, data=st.data())
def test_given_a_set_cut_anywhere_when_iterated_then_whole_entries_only(some, magic, codec, data):
    """R4: a cut last entry ends the set without an error."""
    built = build_set(some, magic=magic, codec=codec)
    size = data.draw(st.integers(0, len(built)))
    ends = [entry.end_position for entry in iterate_entries(built)]

    entries = list(iterate_entries(built[:size]))
    sliced = list(iterate_entries(built, 0, size))

    assert entries == sliced
    assert [entry.end_position for entry in entries] == [end for end in ends if end <= size]


@given(some=records(min_size=1), magic=MAGICS, codec=CODECS, data=st.data())
def test_given_a_flipped_bit_under_the_crc_when_checked_then_corrupt(some, magic, codec, data):
    """R2: CRC-32 from the magic byte on finds each single flip."""
    damaged = bytearray(build_set(some[:1], magic=magic, codec=codec))
    bit = data.draw(st.integers(16 * 8, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8

    with pytest.raises((BatchCorruptError, BatchTruncatedError)):
        check_entry(damaged)


def test_given_the_ends_of_a_buffer_when_parsed_then_truncated():
    """R4: a header that is not there is another error than one that is wrong."""
    for golden in (GOLDEN_V0, GOLDEN_V1):
        header_bytes = 18 + 8 * golden[16]
        for size in range(header_bytes):
            with pytest.raises(BatchTruncatedError):
                parse_entry(golden[:size])
        assert parse_entry(golden[:header_bytes]).size_bytes == len(golden)
        with pytest.raises(BatchTruncatedError):
            check_entry(golden[:-1])
    with pytest.raises(BatchTruncatedError):
        entry_magic(GOLDEN_V0[:16])
    assert entry_magic(GOLDEN_V1[:17]) == 1


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry_of(2, 0, bytes(60)), id="a record batch's magic"),
        pytest.param(entry_of(0, 0, bytes(7)), id="no room for both lengths"),
        pytest.param(entry_of(1, 0, bytes(15)), id="no room for them in v1"),
        pytest.param(entry_of(0, 0, struct.pack(">i4si", 5, b"abcd", -1)), id="a key too long"),
        pytest.param(entry_of(0, 0, struct.pack(">ii", -1, 1)), id="a value too long"),
        pytest.param(entry_of(0, 0, struct.pack(">ii", -2, 0)), id="a key of length -2"),
        pytest.param(entry_of(0, 0, struct.pack(">iix", -1, 0)), id="bytes left over"),
        pytest.param(entry_of(0, 0, struct.pack(">i4s", 4, b"abcd")), id="no value length"),
        pytest.param(entry_of(0, 0, struct.pack(">ii", -1, -1), offset=-1), id="an offset of -1"),
        pytest.param(entry_of(0, 1, struct.pack(">ii", -1, -1)), id="a wrapper without a value"),
        pytest.param(entry_of(0, 1, struct.pack(">iib", -1, 1, 7)), id="a value that is not gzip"),
    ],
)
def test_given_a_senseless_entry_with_a_right_crc_when_read_then_corrupt(entry):
    """R2: a right CRC does not make numbers sensible."""
    with pytest.raises(BatchCorruptError):
        list(iterate_records(entry))


@pytest.mark.parametrize(
    ("inner", "wrapper_offset"),
    [
        pytest.param(b"", 5, id="nothing inside"),
        pytest.param(build_entry(0, None, b"x", magic=1)[:-1], 5, id="cut inside"),
        pytest.param(
            build_entry(9, None, b"x", magic=1), 5, id="relative offset over the wrapper's"
        ),
        pytest.param(build_entry(0, None, b"x", magic=1) * 2, 5, id="offsets that do not grow"),
        pytest.param(
            build_set([Record(0, 0, None, b"x")], magic=1, codec=Codec.GZIP), 5, id="two levels"
        ),
        pytest.param(
            build_entry(-9, None, b"", magic=1) + build_entry(0, None, b"", magic=1),
            5,
            id="an offset below 0",
        ),
    ],
)
def test_given_a_senseless_wrapper_when_read_then_corrupt_at_its_position(inner, wrapper_offset):
    """R3: one level deep, whole, not empty, offsets that a partition can have."""
    compressed = compress(Codec.GZIP, inner)
    wrapper = build_entry(wrapper_offset, None, compressed, magic=1, codec=Codec.GZIP)

    with pytest.raises(BatchCorruptError) as caught:
        list(iterate_records(GOLDEN_V1 + wrapper))

    assert caught.value.position == len(GOLDEN_V1)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec_bits", [4, 5, 6, 7])
def test_given_zstd_or_no_codec_at_all_when_read_then_unsupported(magic, codec_bits):
    """R3: these formats have gzip, snappy and lz4."""
    entry = entry_of(magic, codec_bits, bytes(8 * magic) + struct.pack(">ii3s", -1, 3, b"abc"))

    with pytest.raises(UnsupportedCompressionError):
        list(iterate_records(entry))
    with pytest.raises(UnsupportedCompressionError):
        build_set([Record(0, 0, None, b"x")], magic=magic, codec=Codec.ZSTD)


def test_given_magic_2_when_a_legacy_set_is_built_then_unsupported():
    """R2: the third format is the record batch."""
    with pytest.raises(UnsupportedForMessageFormatError):
        build_set([Record(0, 0, None, b"x")], magic=2)


def test_given_a_wrapper_that_grows_past_the_limit_when_read_then_too_large():
    """R3: what is decompressed is bounded."""
    wrapper = build_set([Record(0, 0, None, bytes(100_000))], magic=1, codec=Codec.GZIP)

    with pytest.raises(MessageTooLargeError):
        list(iterate_records(wrapper, size_bytes_max=100_000))
    assert len(list(iterate_records(wrapper, size_bytes_max=100_034))) == 1


@given(data=st.binary(max_size=200))
def test_given_any_bytes_when_read_then_values_or_our_errors(data):
    """R4: hostile bytes raise nothing else."""
    for magic in (0, 1, 2):
        assert has_magic(data, magic) in (True, False)
    try:
        list(iterate_records(data))
    except TidelogError:
        pass


@given(
    magic=MAGICS, attributes=st.integers(0, 255), tail=st.binary(max_size=80), inner=st.booleans()
)
def test_given_any_bytes_under_a_right_crc_when_read_then_values_or_our_errors(
    magic, attributes, tail, inner
):
    """R2, R3: nor do hostile bytes that somebody computed a CRC for."""
    entry = entry_of(magic, attributes, tail)
    if inner:
        entry = build_entry(3, None, compress(Codec.LZ4, entry), magic=magic, codec=Codec.LZ4)

    try:
        read = list(iterate_records(entry))
    except TidelogError:
        read = []

    assert all(record.offset >= 0 for record in read)


@given(some=records(min_size=1), magic=MAGICS, codec=CODECS, data=st.data())
def test_given_a_mutated_set_when_read_then_values_or_our_errors(some, magic, codec, data):
    """R4: nor do bytes that were right once; what is read was there."""
    damaged = bytearray(build_set(some, magic=magic, codec=codec))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))

    try:
        read = list(iterate_records(damaged))
    except TidelogError:
        read = []

    assert {record.value for record in read} <= {record.value for record in some}
