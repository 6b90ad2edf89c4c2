"""Transactions: what a `read_committed` consumer of Kafka got, with and without the indexes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.end_transaction_marker import EndTransactionMarker, build_marker_batch
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import HEADER_BYTES
from protocol.stored import transaction_index
from protocol.stored.transaction_index import AbortedTransaction
from tests.support.segment_logs import emptied, write_partition
from tidelog.segments.errors import DamagedError
from tidelog.segments.location import locate
from tidelog.segments.log_files import list_partitions
from tidelog.segments.plan import bounds
from tidelog.segments.reader import read_table

KAFKA = Path(__file__).resolve().parents[1] / "data" / "kafka-transactions"
EXPECTED = json.loads((KAFKA / "expected.json").read_text())
INDEXES = {each: list((KAFKA / each).glob("*.txnindex")) for each in EXPECTED}


def committed(directory: Path, **options) -> list[int]:
    table = read_table(directory, isolation="read_committed", columns=["offset"], **options)
    return table["offset"].to_pylist()


@pytest.mark.parametrize("without", [(), (".txnindex",), (".txnindex", ".snapshot")])
@pytest.mark.parametrize("partition", EXPECTED)
def test_given_kafkas_transactions_when_read_committed_then_the_offsets_that_kafka_served(
    tmp_path, partition, without
):
    directory = tmp_path / partition
    shutil.copytree(KAFKA / partition, directory)
    for path in list(directory.iterdir()):
        if path.suffix in without:
            path.unlink()
    runs = EXPECTED[partition]["read_committed_offsets"]

    found = committed(directory, chunk_bytes=2000)

    assert found == [offset for first, last in runs for offset in range(first, last + 1)]
    location = locate(directory)
    (files,) = list_partitions(location)
    end = bounds(location, files, isolation="read_committed")[1]
    assert end == EXPECTED[partition]["last_stable"]


steps = st.lists(
    st.tuples(st.sampled_from(["plain", "data", "data", "commit", "abort"]), st.integers(1, 3)),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(made=steps, per_segment=st.integers(1, 9), chunk_bytes=st.integers(100, 2000))
def test_given_any_transactions_when_read_then_only_decided_ones_and_control_on_request(
    tmp_path_factory, made, per_segment, chunk_bytes
):
    batches, fates, open_rows, control = [], {}, {}, []
    for offset, (kind, producer) in enumerate(made):
        if kind in ("plain", "data"):
            owner = {} if kind == "plain" else {"producer_id": producer, "is_transactional": True}
            if owner:
                owner |= {"producer_epoch": 0, "base_sequence": offset}
                open_rows.setdefault(producer, []).append(offset)
            else:
                fates[offset] = True
            batches.append(build_batch([(offset, 5, None, b"v")], base_offset=offset, **owner))
            continue
        marker = EndTransactionMarker(kind == "commit", 0, 5)
        batches.append(
            build_marker_batch(marker, producer_id=producer, producer_epoch=0, base_offset=offset)
        )
        control.append(offset)
        fates |= dict.fromkeys(open_rows.pop(producer, ()), kind == "commit")
    stable = min((rows[0] for rows in open_rows.values()), default=len(made))
    directory = tmp_path_factory.mktemp("log") / "logs-0"
    groups = [batches[at : at + per_segment] for at in range(0, len(batches), per_segment)]
    write_partition(directory, groups)

    found = committed(directory, chunk_bytes=chunk_bytes)
    everything = read_table(directory, include_control=True)["offset"].to_pylist()

    assert found == [offset for offset in sorted(fates) if fates[offset] and offset < stable]
    assert everything == list(range(len(made)))
    uncommitted = read_table(directory)["offset"].to_pylist()
    assert uncommitted == sorted(set(everything) - set(control))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_given_a_flipped_bit_in_a_transaction_index_when_read_then_no_answer_changes(
    tmp_path_factory, data
):
    partition = data.draw(st.sampled_from([each for each in EXPECTED if INDEXES[each]]))
    directory = tmp_path_factory.mktemp("log") / partition
    shutil.copytree(KAFKA / partition, directory)
    path = data.draw(st.sampled_from(sorted(directory.glob("*.txnindex"))))
    index = bytearray(path.read_bytes())
    index[data.draw(st.integers(0, len(index) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(index)

    found = committed(directory)

    runs = EXPECTED[partition]["read_committed_offsets"]
    assert found == [offset for first, last in runs for offset in range(first, last + 1)]


def data_batch(offset: int, producer: int) -> bytes:
    return build_batch(
        [(offset, 5, None, b"v")], base_offset=offset, producer_id=producer, producer_epoch=0,
        base_sequence=offset, is_transactional=True,
    )  # fmt: skip


def marker_batch(offset: int, producer: int, *, is_commit: bool, is_damaged: bool = False) -> bytes:
    marker = EndTransactionMarker(is_commit, 0, 5)
    batch = bytearray(
        build_marker_batch(marker, producer_id=producer, producer_epoch=0, base_offset=offset)
    )
    if is_damaged:  # the lowest bit of its type: it says the opposite now, and its CRC that it lies
        at = batch.index(b"\0\0\0\1" if is_commit else b"\0\0\0\0", HEADER_BYTES)
        batch[at + 3] ^= 1
    return bytes(batch)


@pytest.mark.parametrize(
    ("was_commit", "is_commit", "index", "expected"),
    [
        (False, True, [AbortedTransaction(1, 0, 2, 3)], [1, 3]),
        (True, False, [AbortedTransaction(1, 3, 4, 5)], [0, 1]),
    ],
)
def test_given_a_damaged_marker_when_read_then_the_index_says_what_it_cannot(
    tmp_path, was_commit, is_commit, index, expected
):
    batches = [
        data_batch(0, 1), data_batch(1, 2),
        marker_batch(2, 1, is_commit=was_commit, is_damaged=True), data_batch(3, 1),
        marker_batch(4, 1, is_commit=is_commit), marker_batch(5, 2, is_commit=True),
    ]  # fmt: skip
    directory = write_partition(tmp_path / "logs-0", [batches])
    (directory / f"{0:020}.txnindex").write_bytes(transaction_index.encode(index))

    assert committed(directory, on_corrupt="skip") == expected


def test_given_a_damaged_marker_when_read_then_the_log_does_not_seem_to_end_before_it(tmp_path):
    batches = [
        data_batch(0, 1), marker_batch(1, 1, is_commit=True, is_damaged=True), data_batch(2, 2),
        marker_batch(3, 2, is_commit=True),
    ]  # fmt: skip
    directory = write_partition(tmp_path / "logs-0", [batches])

    with pytest.raises(DamagedError, match="offsets 1 to 1"):
        committed(directory)
    assert committed(directory, on_corrupt="skip") == [2]


def test_given_a_damaged_marker_behind_what_is_read_when_read_then_it_is_not_believed(tmp_path):
    later = [marker_batch(1, 1, is_commit=False, is_damaged=True), data_batch(2, 2)]
    directory = write_partition(tmp_path / "logs-0", [[data_batch(0, 1)], later])

    assert committed(directory, end_offset=1) == []


def test_given_a_batch_that_a_cleaner_emptied_without_its_marker_when_read_then_nothing_is_open(
    tmp_path,
):
    """The cleaner keeps it for its sequence number, and may have taken the marker."""
    batches = [emptied(data_batch(0, 1)), data_batch(1, 2), marker_batch(2, 2, is_commit=True)]
    write_partition(tmp_path / "logs-0", [batches])

    assert committed(tmp_path) == [1]
