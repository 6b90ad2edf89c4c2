"""`tidelog topics` and `tidelog offsets`, against a broker."""

import pytest

from tests.support.command_line import call
from tidelog.client import Client

TIME_MS = 1_763_712_000_000


@pytest.fixture
def filled(broker, topic):
    """A topic of three partitions with two messages in the last, a second apart."""
    with Client(broker.address) as client:
        client.create_topic(topic, 3, {"retention.ms": "-1"})
        with client.producer() as producer:
            for number in range(2):
                timestamp_ms = TIME_MS + 1000 * number
                producer.produce(topic, b"value", partition=2, timestamp_ms=timestamp_ms)
    return topic


def test_given_a_new_topic_when_created_then_it_is_there(topic):
    outcome = call("topics", "create", topic, "--partitions", "3", "--set", "retention.ms=-1")

    described = call("topics", "describe", topic, "--json").json
    assert outcome.code == 0
    assert outcome.errors == f"tidelog: created {topic} with 3 partitions\n"
    assert [one["partition"] for one in described["partitions"]] == [0, 1, 2]


def test_given_a_topic_when_created_again_then_it_fails_unless_that_is_fine(topic):
    call("topics", "create", topic)

    again = call("topics", "create", topic)
    content = call("topics", "create", topic, "--if-not-exists")

    assert (again.code, content.code) == (1, 0)
    assert "TOPIC_ALREADY_EXISTS" in again.errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "no.such=1"], "INVALID_CONFIG"),
        (["--partitions", "100000"], "INVALID_PARTITIONS"),
    ],
)
def test_given_what_cannot_be_when_created_then_the_broker_says_why(topic, arguments, said):
    outcome = call("topics", "create", topic, *arguments)

    assert outcome.code == 1
    assert said in outcome.errors
    assert outcome.errors.count("\n") == 1
    assert call("topics", "describe", topic).code == 1


def test_given_topics_when_listed_then_each_has_a_row(filled):
    outcome = call("topics", "list")

    rows = {line.split()[0]: line.split()[1:] for line in outcome.text.splitlines()}
    assert rows["TOPIC"] == ["PARTITIONS", "MESSAGES", "SIZE", "ERRORS"]
    assert rows[filled][:2] == ["3", "2"]
    assert rows[filled][-1] == "-"


def test_given_topics_when_listed_as_json_then_scripts_find_all_of_it(filled):
    outcome = call("topics", "list", "--json")

    found = next(one for one in outcome.json if one["name"] == filled)
    size_bytes = found["partitions"][2].pop("size_bytes")
    assert size_bytes > 2 * len(b"value")
    assert found["error"] is None
    assert found["partitions"][2] == {
        "partition": 2,
        "error": None,
        "log_start_offset": 0,
        "high_watermark": 2,
    }


def test_given_a_topic_when_described_then_each_partition_has_a_row(filled):
    outcome = call("topics", "describe", filled)

    header, *rows = outcome.text.splitlines()
    assert header.split("  ")[0] == "PARTITION"
    assert [row.split()[:3] for row in rows] == [["0", "0", "0"], ["1", "0", "0"], ["2", "0", "2"]]


@pytest.mark.parametrize(
    "command",
    [
        "topics describe",
        "topics delete",
        "topics alter --set retention.ms=5",
        "offsets",
        "delete-records --partition 0 --before end",
    ],
)
def test_given_no_such_topic_when_asked_for_then_it_is_said(topic, command):
    outcome = call(*command.split(), topic)

    assert outcome.code == 1
    assert topic in outcome.errors
    assert outcome.errors.count("\n") == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in outcome.errors


@pytest.mark.parametrize(("answer", "is_deleted"), [("y\n", True), ("n\n", False), ("", False)])
def test_given_a_topic_when_deleted_then_it_is_asked_for_first(filled, answer, is_deleted):
    outcome = call("topics", "delete", filled, stdin=answer.encode())

    assert f"Delete {filled} and its 2 messages?" in outcome.errors
    assert outcome.output == b""
    assert outcome.code == (0 if is_deleted else 1)
    assert call("topics", "describe", filled).code == (1 if is_deleted else 0)


def test_given_yes_when_deleted_then_nothing_is_asked(filled):
    outcome = call("topics", "delete", filled, "--yes")

    assert (outcome.code, outcome.errors) == (0, f"tidelog: deleted {filled}\n")
    assert call("topics", "describe", filled).code == 1


def test_given_a_topic_when_altered_then_it_is_so_and_is_said(topic):
    call("topics", "create", topic, "--set", "segment.ms=7")

    outcome = call("topics", "alter", topic, "--set", "retention_ms=5", "--unset", "segment.ms")
    as_json = call("topics", "alter", topic, "--set", "segment.ms=8", "--json")

    assert (outcome.code, outcome.output) == (0, b"")
    assert outcome.errors == (
        f"tidelog: altered {topic}: retention_ms=5, segment.ms back to the default\n"
    )
    assert (as_json.code, as_json.errors) == (0, "")
    assert as_json.json == {"topic": topic, "changed": {"segment.ms": "8"}}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--set", "retention.sm=1"], 1, "did you mean retention.ms? (INVALID_CONFIG)"),
        (["--unset", "retention.sm"], 1, "did you mean retention.ms? (INVALID_CONFIG)"),
        (["--set", "flush.policy=never"], 1, "one of commit, interval, os, not 'never'"),
        (["--set", "retention.ms=1", "--set", "retention_ms=2"], 1, "retention.ms is given twice"),
        (["--set", "retention.ms=1", "--unset", "retention.ms"], 2, "is given twice"),
        (["--set", "retention.ms="], 2, "write --unset retention.ms"),
        (["--set", "retention.ms"], 2, "write --set key=value"),
        ([], 2, "nothing to change"),
    ],
)
def test_given_what_cannot_be_when_altered_then_it_is_said_what_would(topic, arguments, code, said):
    call("topics", "create", topic)

    outcome = call("topics", "alter", topic, *arguments)

    assert (outcome.code, outcome.output) == (code, b"")
    assert said in outcome.errors


@pytest.mark.parametrize(("answer", "is_deleted"), [("y\n", True), ("n\n", False), ("", False)])
def test_given_messages_when_deleted_then_it_is_asked_for_first(filled, answer, is_deleted):
    outcome = call(
        "delete-records", filled, "--partition", "2", "--before", "1", stdin=answer.encode()
    )

    assert f"Delete 1 message of {filled}-2 for good?" in outcome.errors
    assert outcome.output == b""
    assert outcome.code == (0 if is_deleted else 1)
    offsets = call("offsets", filled, "--json").json
    assert offsets[2]["log_start_offset"] == (1 if is_deleted else 0)


def test_given_several_partitions_when_all_is_deleted_then_each_says_where_it_begins(filled):
    arguments = ["delete-records", filled, "--partition", "2", "--partition", "0", "--yes"]

    outcome = call(*arguments, "--before", "end")
    as_json = call(*arguments, "--before", "1", "--json")

    assert (outcome.code, outcome.output) == (0, b"")
    assert outcome.errors == (
        f"tidelog: {filled}-0 begins at offset 0\ntidelog: {filled}-2 begins at offset 2\n"
    )
    assert as_json.code == 1
    assert as_json.errors == (
        f"tidelog: {filled}-0: the offset is outside the partition's log (OFFSET_OUT_OF_RANGE): "
        "it ends at 0, there is no 1 yet\n"
    )
    assert as_json.json == [
        {"partition": 0, "error": "OFFSET_OUT_OF_RANGE", "log_start_offset": None},
        {"partition": 2, "error": None, "log_start_offset": 2},
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--partition", "3", "--before", "end"], 1, "has no partition 3"),
        (["--partition", "0", "--before", "now"], 2, "write an offset or end"),
        (["--partition", "0", "--before", "-1"], 2, "write an offset or end"),
        (["--before", "end"], 2, "--partition"),
        (["--partition", "0"], 2, "--before"),
    ],
)
def test_given_what_cannot_be_when_records_are_deleted_then_it_is_said(
    filled, arguments, code, said
):
    outcome = call("delete-records", filled, "--yes", *arguments)

    assert outcome.code == code
    assert said in outcome.errors
    assert call("offsets", filled, "--json").json[2]["log_start_offset"] == 0


def test_given_a_topic_when_offsets_are_asked_for_then_both_ends_are_shown(filled):
    outcome = call("offsets", filled)
    as_json = call("offsets", filled, "--json")

    rows = [line.split() for line in outcome.text.splitlines()[1:]]
    assert rows == [["0", "0", "0"], ["1", "0", "0"], ["2", "0", "2"]]
    assert as_json.json[2] == {"partition": 2, "log_start_offset": 0, "high_watermark": 2}


@pytest.mark.parametrize(
    ("time", "offset"),
    [
        ("beginning", 0),
        ("end", 2),
        ("2025-11-21T08:00:00Z", 0),
        ("2025-11-21T08:00:00.001Z", 1),
        ("2025-11-21T09:00:02+01:00", None),
    ],
)
def test_given_a_time_when_offsets_are_asked_for_then_its_message_is_found(filled, time, offset):
    outcome = call("offsets", filled, "--partition", "2", "--time", time)
    as_json = call("offsets", filled, "--partition", "2", "--time", time, "--json")

    assert outcome.text.splitlines()[1].split() == ["2", "-" if offset is None else str(offset)]
    assert as_json.json == [{"partition": 2, "offset": offset}]


def test_given_a_partition_that_is_not_there_when_offsets_are_asked_for_then_it_is_said(filled):
    outcome = call("offsets", filled, "--partition", "0", "--partition", "3")

    assert (outcome.code, outcome.errors) == (1, f"tidelog: {filled} has no partition 3\n")
