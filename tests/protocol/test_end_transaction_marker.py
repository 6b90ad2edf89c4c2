"""Transaction markers, as Apache Kafka writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.end_transaction_marker import (
    EndTransactionMarker,
    build_marker_batch,
    decode_marker,
)
from protocol.errors import BatchCorruptError
from protocol.record_batch import check_batch, iterate_batches
from protocol.record_batch_builder import build_batch

KAFKAS = Path(__file__).parents[1] / "data/kafka-4.3/compacted-txn-0"


@pytest.mark.parametrize("is_commit", [True, False])
def test_given_a_marker_when_built_then_it_is_decoded_and_takes_78_bytes(is_commit):
    marker = EndTransactionMarker(is_commit, 12, 1_700_000_000_000)

    batch = build_marker_batch(marker, producer_id=7, producer_epoch=3, base_offset=40)

    header = check_batch(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert (header.base_offset, header.record_count, len(batch)) == (40, 1, 78)
    assert decode_marker(batch) == marker


def test_given_kafkas_markers_when_built_again_then_they_are_the_same_bytes():
    seen = set()
    for path in sorted(KAFKAS.glob("*.log")):
        data = path.read_bytes()
        for position, header in iterate_batches(data):
            if not header.is_control or not header.record_count or header.has_delete_horizon:
                continue
            marker = decode_marker(data, position)
            assert marker is not None
            built = build_marker_batch(
                marker, producer_id=header.producer_id, producer_epoch=header.producer_epoch,
                base_offset=header.base_offset,
            )  # fmt: skip
            stored = data[position : position + header.size_bytes]
            assert built[16:] == stored[16:]  # all but the leader epoch
            seen.add(marker.is_commit)
    assert True in seen


def test_given_another_control_record_when_decoded_then_it_is_no_marker():
    leader_change = build_batch([(0, 0, b"\0\0\0\2", b"\0\0")], is_control=True)
    emptied = build_batch([], last_offset_delta=0, is_control=True)

    assert decode_marker(leader_change) is None
    assert decode_marker(emptied) is None


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"\0", b""), (b"\0\0\0\1", None), (b"\0\0\0\1", b"\0\0")]
)
def test_given_a_broken_marker_when_decoded_then_it_is_corrupt(key, value):
    with pytest.raises(BatchCorruptError):
        decode_marker(build_batch([(0, 0, key, value)], is_control=True))


def test_given_a_later_version_with_more_fields_when_decoded_then_the_known_ones_are_read():
    batch = build_batch([(0, 5, b"\0\1\0\0more", b"\0\1\0\0\0\x09more")], is_control=True)

    assert decode_marker(batch) == EndTransactionMarker(False, 9, 5)
