"""Kafka's DumpLogSegments reads what our broker wrote, and finds nothing to complain about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from protocol.compression import Codec
from tests.support.kafka_jars import KafkaPrograms
from tests.support.running_broker import BrokerProcess
from tidelog.client import Client

pytestmark = pytest.mark.timeout(900)  # the jars may have to be fetched first

BATCH = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*isvalid: (\w+)")
RECORD = re.compile(r"^\| offset: (\d+) .*?(?: key: (\S+))?(?: payload: (\S+))?$", re.MULTILINE)
LINES = 600
CODECS = tuple(Codec)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of a broker that was stopped in order: all codecs, rolled segments."""
    directory = tmp_path_factory.mktemp("written")
    with BrokerProcess(directory) as running:
        with Client(running.address) as client:
            settings = {"segment.bytes": "16384", "index.interval.bytes": "512"}
            client.create_topic("dumped", partitions=1, settings=settings)
            for number in range(LINES):
                codec = CODECS[number * len(CODECS) // LINES]
                with client.producer(compression=codec, linger_s=0.0) as producer:
                    producer.produce("dumped", value(number), key=b"k%d" % number, partition=0)
        assert running.stop() == 0
    return running.data_directory / "dumped-0"


def value(number: int) -> bytes:
    return b"line-%d-" % number + b"x" * (number % 97)


def test_given_our_segments_when_kafka_dumps_them_then_every_batch_and_record_is_there(
    kafka: KafkaPrograms, written: Path
) -> None:
    logs = sorted(written.glob("*.log"))
    assert len(logs) > 2

    said = kafka.dump(logs, "--deep-iteration", "--print-data-log")

    assert said.count("isvalid: true") == len(BATCH.findall(said))
    assert "isvalid: false" not in said
    found = [(int(number), key, payload) for number, key, payload in RECORD.findall(said)]
    assert found == [(n, f"k{n}", value(n).decode()) for n in range(LINES)]


def test_given_our_indexes_when_kafka_checks_them_then_there_is_nothing_to_complain_about(
    kafka: KafkaPrograms, written: Path
) -> None:
    indexes = sorted([*written.glob("*.index"), *written.glob("*.timeindex")])
    assert len(indexes) > 4

    said = kafka.dump(indexes, "--verify-index-only")

    assert said.count("Dumping ") == len(indexes)
    for complaint in ("Mismatch", "Mismatches", "mismatch", "should be", "Found timestamp"):
        assert complaint not in said, said


def test_given_our_producer_snapshots_when_kafka_dumps_them_then_it_can(
    kafka: KafkaPrograms, written: Path
) -> None:
    snapshots = sorted(written.glob("*.snapshot"))
    assert snapshots, "a clean stop leaves one at the log's end"

    said = kafka.dump(snapshots)

    assert said.count("Dumping ") == len(snapshots)
    assert "corrupt" not in said.lower()
