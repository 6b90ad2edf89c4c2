"""`durable-offsets`: header and slots."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.checksum import crc32c
from protocol.errors import StoredFormatError
from protocol.stored.durable_offsets import (
    FREE_SLOT,
    HEADER_BYTES,
    SLOT_BYTES,
    DurableSlot,
    decode,
    encode_header,
    encode_slot,
    slot_position,
)
from tests.support.damage import any_bytes, error_of

TOPIC_ID = UUID("6e3265a1-4d7d-47ba-91ab-173b868aa84c")

# Computed with crcmod, an independent CRC-32C.
GOLDEN_HEADER = bytes.fromhex("544944454455524f 00000001" + "00" * 16 + "b677e933")
GOLDEN_SLOT = bytes.fromhex("6e3265a14d7d47ba91ab173b868aa84c 00000003 00000000000003e8 051e41d5")

SLOTS = st.lists(
    st.none() | st.tuples(st.uuids(), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)),
    max_size=6,
)


def file_of(slots: list[tuple[UUID, int, int] | None]) -> bytes:
    """A whole file; None is a free slot."""
    return encode_header() + b"".join(
        FREE_SLOT if slot is None else encode_slot(slot[0].bytes, slot[1], slot[2])
        for slot in slots
    )


def numbered(slots: list[tuple[UUID, int, int] | None]) -> list[DurableSlot]:
    return [DurableSlot(number, *slot) for number, slot in enumerate(slots) if slot is not None]


def test_given_golden_bytes_when_encoded_and_decoded_then_they_agree() -> None:
    assert encode_header() == GOLDEN_HEADER
    assert encode_slot(TOPIC_ID.bytes, 3, 1000) == GOLDEN_SLOT
    assert decode(GOLDEN_HEADER + FREE_SLOT + GOLDEN_SLOT) == [DurableSlot(1, TOPIC_ID, 3, 1000)]


@given(slots=SLOTS, cut=st.integers(1, SLOT_BYTES - 1))
def test_given_any_slots_when_encoded_and_decoded_then_the_same_and_a_cut_one_is_left_out(
    slots: list[tuple[UUID, int, int] | None], cut: int
) -> None:
    data = file_of(slots)

    assert decode(data) == numbered(slots)
    assert decode(data + GOLDEN_SLOT[:cut]) == numbered(slots)


@given(slots=SLOTS, flip=st.data())
def test_given_a_flipped_bit_in_a_slot_when_decoded_then_that_hint_alone_is_lost(
    slots: list[tuple[UUID, int, int] | None], flip: st.DataObject
) -> None:
    slots = [*slots, (TOPIC_ID, 3, 1000)]
    data = bytearray(file_of(slots))
    bit = flip.draw(st.integers(HEADER_BYTES * 8, len(data) * 8 - 1))
    data[bit // 8] ^= 1 << bit % 8
    hit = (bit // 8 - HEADER_BYTES) // SLOT_BYTES

    found = decode(data)

    assert found == [slot for slot in numbered(slots) if slot.slot != hit]


def test_given_an_empty_file_when_decoded_then_no_slots() -> None:
    assert decode(b"") == []


def test_given_a_slot_number_when_placed_then_it_never_crosses_a_sector() -> None:
    for slot in range(64):
        first, last = slot_position(slot), slot_position(slot) + SLOT_BYTES - 1

        assert first // 512 == last // 512
    assert slot_position(0) == HEADER_BYTES


def test_given_a_negative_offset_under_a_right_checksum_when_decoded_then_ignored() -> None:
    assert decode(encode_header() + encode_slot(TOPIC_ID.bytes, 1, -5)) == []


def test_given_a_log_start_when_decoded_then_its_slot_has_a_number_no_partition_has() -> None:
    data = encode_header() + encode_slot(TOPIC_ID.bytes, -1 - 3, 5)

    assert decode(data) == [(0, TOPIC_ID, -4, 5)]


@given(byte=st.integers(0, HEADER_BYTES - 1))
def test_given_a_damaged_header_when_decoded_then_refused(byte: int) -> None:
    data = bytearray(GOLDEN_HEADER + GOLDEN_SLOT)
    data[byte] ^= 0x10

    with pytest.raises(StoredFormatError):
        decode(data)


def test_given_a_cut_header_when_decoded_then_refused() -> None:
    with pytest.raises(StoredFormatError):
        decode(GOLDEN_HEADER[:31])


@given(data=any_bytes(SLOTS.map(file_of)))
def test_given_any_bytes_when_decoded_then_slots_or_our_error(data: bytes) -> None:
    error = error_of(decode, data)

    assert error is None or isinstance(error, StoredFormatError)


def test_given_a_newer_version_when_decoded_then_refused() -> None:
    body = GOLDEN_HEADER[:8] + (2).to_bytes(4, "big") + bytes(16)
    newer = body + crc32c(body).to_bytes(4, "big")

    with pytest.raises(StoredFormatError, match="version 2"):
        decode(newer)
