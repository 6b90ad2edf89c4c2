"""`tidelog consume`, against a broker."""

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from tests.support.command_line import call, start
from tidelog.client import Client

TIMES_MS = [1_763_712_000_000, 1_763_712_001_000, 1_763_712_002_000]


@pytest.fixture
def filled(broker, topic):
    """A topic with three messages in partition 0, a second apart, and one in partition 1."""
    with Client(broker.address) as client:
        client.create_topic(topic, 2)
        with client.producer() as producer:
            for number, timestamp_ms in enumerate(TIMES_MS):
                value = b"value %d" % number
                producer.produce(topic, value, partition=0, timestamp_ms=timestamp_ms)
            producer.produce(topic, b"\xff", key=b"k", partition=1, timestamp_ms=TIMES_MS[0])
    return topic


def consume(topic, *options):
    """Return the lines of partition 0."""
    outcome = call("consume", topic, "--partition", "0", *options)
    assert outcome.code == 0, outcome.errors
    assert outcome.errors == ""
    return outcome.text.splitlines()


def test_given_messages_when_consumed_raw_then_values_and_newlines_come_out(filled):
    outcome = call("consume", filled)

    assert outcome.code == 0
    assert sorted(outcome.output.splitlines()) == [b"value 0", b"value 1", b"value 2", b"\xff"]
    assert outcome.output.endswith(b"\n")


@pytest.mark.parametrize(
    ("start_at", "first"),
    [
        ("beginning", 0),
        ("0", 0),
        ("2", 2),
        ("3", 3),
        ("end", 3),
        (datetime.fromtimestamp(TIMES_MS[1] / 1000, UTC).isoformat(), 1),
        (datetime.fromtimestamp(TIMES_MS[1] / 1000).isoformat(), 1),
        ("2025-11-21T08:00:00.001Z", 1),
        ("1999-12-31", 0),
        ("2999-12-31", 3),
    ],
)
def test_given_a_start_when_consumed_then_it_begins_there(filled, start_at, first):
    found = consume(filled, "--from", start_at)

    assert found == [f"value {number}" for number in range(first, 3)]


@pytest.mark.parametrize("count_max", [0, 1, 3, 99])
def test_given_max_when_consumed_then_it_ends_there(filled, count_max):
    found = consume(filled, "--max", str(count_max))

    assert found == [f"value {number}" for number in range(min(3, count_max))]


def test_given_follow_and_max_when_consumed_then_it_ends_with_the_last(filled):
    found = consume(filled, "--follow", "--max", "3")

    assert len(found) == 3


def test_given_partitions_when_consumed_then_others_are_left_out(filled):
    outcome = call("consume", filled, "--partition", "1", "--partition", "1")

    assert outcome.output == b"\xff\n"


def test_given_json_when_consumed_then_each_line_is_an_object(filled):
    outcome = call("consume", filled, "--partition", "1", "--format", "json")

    assert outcome.json_lines == [
        {
            "topic": filled,
            "partition": 1,
            "offset": 0,
            "timestamp": TIMES_MS[0],
            "key": "k",
            "value": "/w==",
            "value_encoding": "base64",
            "headers": [],
        }
    ]


@pytest.mark.parametrize("options", [[], ["--format", "template"]])
def test_given_a_template_when_consumed_then_it_is_filled_in(filled, options):
    found = consume(filled, "--max", "1", "--template", r"{offset}\t{time}", *options)

    assert found == ["0\t2025-11-21T08:00:00.000Z"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing-of-this-name"], "UNKNOWN_TOPIC_OR_PARTITION"),
        (["TOPIC", "--partition", "7"], "UNKNOWN_TOPIC_OR_PARTITION"),
        (["TOPIC", "--from", "99", "--follow"], "OFFSET_OUT_OF_RANGE"),
        (["TOPIC", "--from", "99"], "ends at offset 3, there is no 99 yet"),
        (["TOPIC", "--partition", "1", "--from", "2"], "ends at offset 1, there is no 2 yet"),
        (["a b"], "the topic name 'a b' is not legal"),
    ],
)
def test_given_what_is_not_there_when_consumed_then_it_is_said(filled, arguments, said):
    outcome = call("consume", *[filled if one == "TOPIC" else one for one in arguments])

    assert outcome.code == 1
    assert said in outcome.errors
    assert outcome.errors.count("\n") == 1


def test_given_a_follower_when_messages_come_then_they_are_written_at_once(broker, filled):
    process = start("consume", filled, "--follow", "--format", "json", "--partition", "0")
    early = [json.loads(process.stdout.readline())["value"] for _ in range(3)]

    with Client(broker.address) as client, client.producer() as producer:
        producer.produce(filled, b"later", partition=0)
    late = json.loads(process.stdout.readline())

    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=30)
    assert early == ["value 0", "value 1", "value 2"]
    assert late["value"] == "later"
    assert (process.returncode, rest, errors) == (130, b"", b"")


def test_given_a_reader_that_has_enough_when_consumed_then_the_end_is_quiet(broker, topic):
    with Client(broker.address) as client, client.producer() as producer:
        for _ in range(20_000):
            producer.produce(topic, b"x" * 100)
    process = start("consume", topic, bufsize=0)

    first = process.stdout.read(101)
    process.stdout.close()
    errors = process.stderr.read()

    assert first == b"x" * 100 + b"\n"
    assert process.wait(30) == 0
    assert errors == b""


def test_given_a_full_disk_when_consumed_then_one_sentence_says_so(filled):
    with open("/dev/full", "wb") as full:
        process = start("consume", filled, stdout=full)
        _, errors = process.communicate(timeout=30)

    assert process.returncode == 1
    assert errors == b"tidelog: No space left on device\n"


def test_given_help_into_a_closed_pipe_when_written_then_the_end_is_quiet():
    command = f"{sys.executable} -m tidelog config print --json"

    outcome = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | true"], capture_output=True, timeout=30
    )

    assert (outcome.returncode, outcome.stderr) == (0, b"")
