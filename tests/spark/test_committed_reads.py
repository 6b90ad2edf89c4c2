"""Committed records only: what a `read_committed` consumer of Kafka got, by each way in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from protocol.identifiers import TopicPartition
from tests.support.command_line import call
from tests.support.running_broker import BrokerProcess
from tests.support.spark_broker import planned, read, reader, stream
from tidelog.segments.read_options import ReadOptions
from tidelog.spark.jobs.archive_source import ArchiveSource, BrokerSource, DirectorySource

KAFKA = Path(__file__).resolve().parents[1] / "data" / "kafka-transactions"
SERVED = json.loads((KAFKA / "expected.json").read_text())
TOPICS = ("idempotent", "txn", "compacted-txn")
PARTITIONS = [
    TopicPartition("idempotent", 0),
    TopicPartition("txn", 0),
    TopicPartition("txn", 1),
    TopicPartition("compacted-txn", 0),
]
COMMITTED = sorted(
    (*key, offset)
    for key in PARTITIONS
    for first, last in SERVED[str(key)]["read_committed_offsets"]
    for offset in range(first, last + 1)
)
STABLE = {key: SERVED[str(key)]["last_stable"] for key in PARTITIONS}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A broker with what Kafka wrote; of `txn-0` the last transaction is undecided."""
    directory = tmp_path_factory.mktemp("kafka")
    topics = [argument for topic in TOPICS for argument in ("--topic", topic)]
    done = call("import-kafka", str(KAFKA), "--into", str(directory / "data"), *topics)
    assert done.code == 0, done.errors
    with BrokerProcess(directory) as broker:
        yield broker.address


def places(rows: Iterable[dict]) -> list[tuple[str, int, int]]:
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)


@pytest.mark.parametrize("tasks", [1, 40])
def test_given_kafkas_transactions_when_read_from_a_broker_then_the_offsets_that_kafka_served(
    address, tasks
):
    made = reader(
        address, ("topic", "partition", "offset"), subscribe=",".join(TOPICS),
        isolation="read_committed", minPartitions=str(tasks),
    )  # fmt: skip

    assert len(planned(made)) >= tasks
    assert places(read(made)) == COMMITTED


def test_given_an_undecided_transaction_when_streamed_then_it_waits(address):
    committed = stream(address, subscribe="txn", isolation="read_committed")
    everything = stream(address, subscribe="txn")

    stable, ends = committed.initialOffset()["txn"], everything.initialOffset()["txn"]

    assert stable == {"0": STABLE[PARTITIONS[1]], "1": STABLE[PARTITIONS[2]]}
    assert ends["0"] == SERVED["txn-0"]["latest"] > stable["0"]
    committed.stop()
    everything.stop()


@pytest.mark.parametrize("kind", ["broker", "directory"])
def test_given_kafkas_transactions_when_archived_or_copied_then_the_offsets_that_kafka_served(
    address, kind
):
    source: ArchiveSource = DirectorySource(str(KAFKA), TOPICS)
    if kind == "broker":
        source = BrokerSource(address, TOPICS)
    bounds = source.bounds()
    options = ReadOptions(columns=("topic", "partition", "offset"))

    found = [
        row
        for key, (start, end) in bounds.items()
        for piece in source.pieces(key, start, end, 1_000)
        for batch in source.batches(piece, options)
        for row in batch.to_pylist()
    ]

    assert {key: each.end for key, each in bounds.items()} == STABLE
    assert places(found) == COMMITTED


def test_given_a_wish_for_everything_when_archived_then_it_is_taken(address):
    source = BrokerSource(address, ["txn"], "read_uncommitted")

    assert source.bounds()[PARTITIONS[1]].end == SERVED["txn-0"]["latest"]
