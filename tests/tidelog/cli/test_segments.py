"""`tidelog segments explain`, of a running broker and of a stopped one's files."""

import datetime
import time

import pytest

from tests.support.command_line import call
from tests.support.running_broker import BrokerProcess
from tidelog.client import Client

HOUR_MS = 3_600_000


def fill(address: str, topic: str, **settings: str) -> int:
    """Three segments whose records are an hour old; return their timestamp."""
    time_ms = time.time_ns() // 1_000_000 - HOUR_MS
    with Client(address) as client:
        client.create_topic(topic, 2, {"segment.bytes": "2000", **settings})
        with client.producer(batch_bytes_max=1) as producer:
            for _ in range(5):
                producer.produce(topic, bytes(900), partition=1, timestamp_ms=time_ms)
    return time_ms


def test_given_a_running_broker_when_asked_then_each_segment_has_a_row_and_a_time(broker, topic):
    time_ms = fill(broker.address, topic, **{"retention.ms": str(3 * HOUR_MS)})

    outcome = call("segments", "explain", topic, "--url", f"http://{broker.http_address}")
    as_json = call(
        "segments", "explain", topic, "--url", broker.http_address, "--partition", "1", "--json"
    )

    assert outcome.code == 0
    heading, columns, *rows = outcome.text.splitlines()
    assert heading == (
        f"{topic}: cleanup.policy=delete retention.ms={3 * HOUR_MS} retention.bytes=-1"
    )
    assert columns.split()[:3] == ["PARTITION", "FROM", "TO"]
    assert [row.split()[:3] for row in rows] == [
        ["0", "0", "0"], ["1", "0", "2"], ["1", "2", "4"], ["1", "4", "5"],
    ]  # fmt: skip
    due = datetime.datetime.fromtimestamp((time_ms + 3 * HOUR_MS + 1) // 1000).astimezone()
    assert due.isoformat(timespec="seconds") in rows[1]
    assert rows[1].endswith("goes by retention.ms")
    (part,) = as_json.json["partitions"]
    assert [each["due_at_ms"] for each in part["segments"]] == [time_ms + 3 * HOUR_MS + 1] * 3


def test_given_a_stopped_broker_when_its_files_are_read_then_they_tell_what_it_told(tmp_path):
    with BrokerProcess(tmp_path, "topics.retention_bytes=5000") as running:
        fill(running.address, "logs", **{"retention.ms": str(3 * HOUR_MS)})
        with Client(running.address) as client:
            client.delete_records("logs", {1: 1})
        arguments = ["segments", "explain", "logs", "--json"]
        live = call(*arguments, "--url", running.http_address)
        in_use = call(*arguments, "--offline", str(running.data_directory))
        assert running.stop() == 0
    config = tmp_path / "tidelog.toml"
    config.write_text("[topics]\nretention_bytes = 5000\n")

    stopped = call(*arguments, "--offline", str(running.data_directory), "--config", str(config))
    one = call(*arguments, "--offline", str(running.data_directory), "--partition", "1")

    assert in_use.code == 1
    assert "in use by a running broker" in in_use.errors
    assert stopped.code == 0
    assert stopped.json == live.json
    assert one.json["retention_bytes"] == -1
    assert one.json["partitions"][0]["segments"][0]["due_at_ms"] is not None
    assert len(one.json["partitions"]) == 1


def test_given_deleted_records_when_asked_then_the_segment_they_are_still_in_says_so(broker, topic):
    fill(broker.address, topic)
    with Client(broker.address) as client:
        client.delete_records(topic, {1: 3})

    outcome = call("segments", "explain", topic, "--url", broker.http_address, "--partition", "1")
    behind = call("consume", topic, "--partition", "1", "--from", "2")

    kept = [row for row in outcome.text.splitlines() if row.split()[1] == "2"]
    assert kept[0].endswith("goes by retention.ms; records below 3 are deleted already")
    assert outcome.text.count("deleted already") == 1
    assert behind.code == 1
    assert f"{topic} begins at offset 3, 2 is gone (OFFSET_OUT_OF_RANGE)" in behind.errors


def test_given_lost_time_indexes_when_a_stopped_brokers_files_are_read_then_the_logs_tell(tmp_path):
    with BrokerProcess(tmp_path) as running:
        fill(running.address, "logs")
        assert running.stop() == 0
    arguments = ["segments", "explain", "logs", "--json", "--offline", str(running.data_directory)]
    before = call(*arguments)
    for path in (running.data_directory / "logs-1").glob("*.timeindex"):
        path.unlink()

    assert call(*arguments).json == before.json
    assert before.json["partitions"][1]["segments"][0]["largest_timestamp_ms"] is not None


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--offline", "EMPTY"], 1, "there is no topic logs in"),
        (["--offline", "EMPTY/none"], 1, "is no directory"),
        (["--offline", "EMPTY", "--url", "http://localhost:1"], 2, "give one of them"),
        (["--config", "x.toml"], 2, "--config is for --offline"),
        (["--url", "ftp://localhost"], 2, "only http://"),
    ],
)
def test_given_what_cannot_be_when_asked_then_it_is_said(tmp_path, arguments, code, said):
    arguments = [each.replace("EMPTY", str(tmp_path)) for each in arguments]

    outcome = call("segments", "explain", "logs", *arguments)

    assert outcome.code == code
    assert said in outcome.errors
    assert outcome.output == b""


def test_given_nobody_there_when_asked_then_it_is_said(free_port):
    outcome = call("segments", "explain", "logs", "--url", f"http://127.0.0.1:{free_port}")

    assert outcome.code == 3
    assert f"cannot reach the broker's HTTP port at 127.0.0.1:{free_port}" in outcome.errors


def test_given_no_such_topic_when_asked_for_then_it_is_said(broker, topic):
    outcome = call("segments", "explain", topic, "--url", broker.http_address)

    assert (outcome.code, outcome.errors) == (1, f"tidelog: there is no topic {topic}\n")
