"""`tidelog import-kafka`: what Kafka wrote is served as Kafka served it."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from broker.storage.directory_lock import DirectoryLock
from tests.support.command_line import call
from tests.support.running_broker import BrokerProcess
from tidelog.client import Client

DATA = Path(__file__).parents[2] / "data/kafka-4.3"
CONTROLLER = DATA.parent / "kafka-controller/__cluster_metadata-0"
TOPICS = ("compacted-idempotent", "compacted-txn", "logappend", "shapes")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A Kafka data directory, with what Kafka leaves lying about."""
    directory = tmp_path / "kafka"
    for path in (*DATA.iterdir(), CONTROLLER):
        if path.is_dir():
            shutil.copytree(path, directory / path.name)
    (directory / "log-start-offset-checkpoint").write_text("0\n1\nshapes 0 2\n")
    gone = directory / f"gone-0.{'0' * 32}-delete"
    shutil.copytree(DATA / "shapes-0", gone)
    (directory / "shapes-0" / "00000000000000000000.log.deleted").write_bytes(b"x")
    return directory


def expected_offsets(name: str) -> list[int]:
    with gzip.open(DATA / f"{name}.jsonl.gz") as lines:
        return [json.loads(line)["offset"] for line in lines]


def test_given_a_kafka_directory_when_imported_then_a_broker_serves_what_kafka_served(
    source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "data"

    done = call("import-kafka", str(source), "--into", str(target), "--json")

    said = json.loads(done.text)
    assert (done.code, said["done"], said["errors"]) == (0, True, 0)
    assert [topic["topic"] for topic in said["topics"]] == list(TOPICS)
    assert all(topic["settings_known"] for topic in said["topics"])
    assert said["topics"][0]["settings"]["cleanup.policy"] == "compact"
    assert said["topics"][2]["missing_partitions"] == [0]
    reasons = {Path(each["path"]).name: each["reason"] for each in said["left_out"]}
    assert "deleted" in reasons[f"gone-0.{'0' * 32}-delete"]
    assert "controller" in reasons["__cluster_metadata-0"]
    assert "leftover" in reasons["00000000000000000000.log.deleted"]
    broker = BrokerProcess(tmp_path)
    with broker, Client(broker.address) as client:
        for name in ("compacted-idempotent-0", "compacted-txn-0", "logappend-1", "shapes-0"):
            topic, _, number = name.rpartition("-")
            found = [message.offset for message in client.messages(topic, [int(number)])]
            start = 2 if topic == "shapes" else 0
            assert found == [offset for offset in expected_offsets(name) if offset >= start]
        assert client.topics("logappend")[0].partitions[0].high_watermark == 0
        assert broker.stop() == 0


@pytest.mark.parametrize("checkpoint", [None, "0\n1\ncompacted-txn 0 179\n"])
def test_given_a_compacted_topic_of_unknown_settings_when_imported_then_its_gaps_are_the_cleaners(
    tmp_path: Path, checkpoint: str | None
) -> None:
    """Between its segments offsets are missing, which in a log that was never cleaned is damage."""
    source, target = tmp_path / "kafka", tmp_path / "data"
    shutil.copytree(DATA.parent / "kafka-transactions/compacted-txn-0", source / "compacted-txn-0")
    if checkpoint is not None:
        (source / "cleaner-offset-checkpoint").write_text(checkpoint)
    served = json.loads((DATA.parent / "kafka-transactions/expected.json").read_text())
    runs = served["compacted-txn-0"]["read_committed_offsets"]

    done = call("import-kafka", str(source), "--into", str(target), "--json")

    assert not json.loads(done.text)["topics"][0]["settings_known"]
    with BrokerProcess(tmp_path) as broker, Client(broker.address) as client:
        found = {message.offset for message in client.messages("compacted-txn", [0])}
    assert found >= {offset for first, last in runs for offset in range(first, last + 1)}


def test_given_a_part_of_it_when_imported_by_links_then_sealed_segments_are_shared(
    source: Path, tmp_path: Path
) -> None:
    shapes = source / "shapes-0"
    last = shapes / "00000000000000001000.log"
    last.write_bytes(b"")

    done = call(
        "import-kafka", str(source), "--into", str(tmp_path / "data"), "--topic", "shapes", "--link"
    )

    assert done.code == 0, done.errors
    brought = tmp_path / "data" / "shapes-0"
    assert os.path.samefile(
        brought / "00000000000000000000.log", shapes / "00000000000000000000.log"
    )
    assert not os.path.samefile(brought / last.name, last)
    assert sorted(path.name for path in (tmp_path / "data").iterdir() if path.is_dir()) == [
        "shapes-0"
    ]


def test_given_damage_when_imported_then_nothing_is_brought_unless_said(
    source: Path, tmp_path: Path
) -> None:
    path = source / "shapes-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    into = ["--into", str(tmp_path / "data")]

    refused = call("import-kafka", str(source), *into)
    brought_nothing = not (tmp_path / "data").exists()
    taken = call("import-kafka", str(source), *into, "--take-damaged")

    assert (refused.code, taken.code) == (1, 0)
    assert brought_nothing
    assert "--take-damaged" in refused.errors
    assert (tmp_path / "data" / "shapes-0" / path.name).read_bytes() == data


def test_given_what_cannot_be_done_when_imported_then_it_is_said_and_nothing_changes(
    source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "data"
    into = ["--into", str(target)]

    dry = call("import-kafka", str(source), *into, "--dry-run")
    assert (dry.code, target.exists()) == (0, False)
    assert "would be brought" in dry.text
    assert call("import-kafka", str(source), *into, "--topic", "nope").code == 1
    assert call("import-kafka", str(tmp_path / "missing"), *into).code != 0
    assert call("import-kafka", str(source), "--into", str(source)).code == 1
    lock = DirectoryLock(source / ".lock")
    in_use = call("import-kafka", str(source), *into)
    lock.release()
    assert in_use.code == 1
    assert "in use" in in_use.errors

    assert call("import-kafka", str(source), *into).code == 0
    again = call("import-kafka", str(source), *into)
    assert again.code == 1
    assert "already" in again.errors
