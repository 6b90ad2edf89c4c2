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
from tests.support.segment_logs import write_partition
from tidelog.segments.location import locate
from tidelog.segments.log_files import list_partitions
from tidelog.segments.plan import bounds
from tidelog.segments.reader import read_table

KAFKA = Path(__file__).resolve().parents[1] / "data" / "kafka-transactions"
EXPECTED = json.loads((KAFKA / "expected.json").read_text())


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
