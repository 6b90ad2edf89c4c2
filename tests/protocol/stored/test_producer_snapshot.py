"""Producer snapshots, bytes to entries and back."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.checksum import crc32c
from protocol.errors import StoredFormatError
from protocol.stored.producer_snapshot import (
    EARLIER_BATCH_BYTES,
    ENTRY_BYTES,
    MORE_HEADER_BYTES,
    EarlierBatch,
    IndexChecksum,
    ProducerEntry,
    decode,
    decode_all,
    encode,
)
from tests.support.damage import any_bytes, error_of

# As Apache Kafka 4.3.0 wrote it, and what its DumpLogSegments printed.
KAFKAS = bytes.fromhex(
    "0001 df1d1410 00000002"
    "00000000000003ec 0001 00000003 0000000000000014 00000001 000001977420df0b 00000002"
    "000000000000000e"
    "00000000000003ed 0001 00000005 0000000000000017 00000002 000001977420dfa4 00000002"
    "0000000000000010"
)
KAFKAS_ENTRIES = [
    ProducerEntry(
        producer_id=1004,
        producer_epoch=1,
        last_sequence=3,
        last_offset=20,
        offset_delta=1,
        last_timestamp=1750000000779,
        coordinator_epoch=2,
        current_txn_first_offset=14,
    ),
    ProducerEntry(
        producer_id=1005,
        producer_epoch=1,
        last_sequence=5,
        last_offset=23,
        offset_delta=2,
        last_timestamp=1750000000932,
        coordinator_epoch=2,
        current_txn_first_offset=16,
    ),
]

I64 = st.integers(-(2**63), 2**63 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
I16 = st.integers(-(2**15), 2**15 - 1)
ENTRIES = st.lists(
    st.builds(ProducerEntry, I64, I16, I32, I64, I32, I64, I32, I64),
    max_size=5,
    unique_by=lambda entry: entry.producer_id,
)


def with_right_checksum(data: bytes) -> bytes:
    """The same file after somebody mended its checksum, so that later checks are reached."""
    return data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:]


def test_given_kafkas_snapshot_when_decoded_then_it_is_what_kafka_says() -> None:
    entries = decode(KAFKAS)

    assert entries == KAFKAS_ENTRIES
    assert encode(entries) == KAFKAS


def test_given_no_producers_when_encoded_then_ten_bytes() -> None:
    data = encode([])

    assert data == bytes.fromhex("0001 48674bc7 00000000")
    assert decode(data) == []


def test_given_only_an_id_and_epoch_when_encoded_then_the_rest_is_kafkas_none() -> None:
    (entry,) = decode(encode([ProducerEntry(7, 0)]))

    assert entry == (7, 0, -1, -1, 0, -1, -1, -1)


@given(entries=ENTRIES)
def test_given_any_entries_when_encoded_and_decoded_then_the_same(
    entries: list[ProducerEntry],
) -> None:
    assert decode(encode(entries)) == entries


@given(bit=st.integers(0, len(KAFKAS) * 8 - 1))
def test_given_one_flipped_bit_when_decoded_then_refused(bit: int) -> None:
    data = bytearray(KAFKAS)
    data[bit // 8] ^= 1 << bit % 8

    with pytest.raises(StoredFormatError):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [
        KAFKAS[:9],
        with_right_checksum(KAFKAS[:-1]),
        with_right_checksum(KAFKAS + b"\0"),
        with_right_checksum(KAFKAS[:6] + struct.pack(">i", 3) + KAFKAS[10:]),
        with_right_checksum(KAFKAS[:6] + struct.pack(">i", -1) + KAFKAS[10:]),
        with_right_checksum(KAFKAS[:6] + struct.pack(">i", 2**31 - 1) + KAFKAS[10:]),
        with_right_checksum(KAFKAS[: 10 + ENTRY_BYTES] + KAFKAS[10 : 10 + ENTRY_BYTES]),  # twice
    ],
)
def test_given_a_malformed_snapshot_when_decoded_then_refused(data: bytes) -> None:
    with pytest.raises(StoredFormatError):
        decode(data)


@given(data=any_bytes(ENTRIES.map(encode)))
def test_given_any_bytes_when_decoded_then_entries_or_our_error(data: bytes) -> None:
    for candidate in (data, with_right_checksum(data)):
        error = error_of(decode, candidate)

        assert error is None or isinstance(error, StoredFormatError)


EARLIER = st.lists(st.builds(EarlierBatch, I64, I32, I64, I32, I64), max_size=5)


@given(
    entries=ENTRIES, earlier=EARLIER, size=st.integers(0, 2**31 - 1), crc=st.integers(0, 2**32 - 1)
)
def test_given_more_than_kafka_writes_when_decoded_then_kafkas_part_is_what_it_was(
    entries, earlier, size, crc
):
    data = encode(entries, earlier, IndexChecksum(size, crc))

    assert decode(data) == entries
    found = decode_all(data)
    assert (found.entries, found.earlier) == (entries, earlier)
    if earlier or size or any(each.has_transactions for each in entries):
        assert found.index_checksum == (size, crc)
        more = MORE_HEADER_BYTES + len(earlier) * EARLIER_BATCH_BYTES
        kafkas = with_right_checksum(data[:-more])
        assert kafkas == encode(entries)
    else:
        assert found.index_checksum is None
        assert data == encode(entries)


@pytest.mark.parametrize("more", [b"TLpb", b"XXpb" + bytes(12), b"TLpb" + bytes(11) + b"\1", b"x"])
def test_given_something_else_behind_the_entries_when_decoded_then_it_is_refused(
    more: bytes,
) -> None:
    data = with_right_checksum(KAFKAS + more)

    with pytest.raises(StoredFormatError):
        decode(data)
