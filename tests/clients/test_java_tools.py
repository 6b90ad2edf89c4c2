"""Apache Kafka's command line tools, as a user runs them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.adapters.java_tools import JavaTools
from tests.support.kafka_jars import KafkaPrograms
from tests.support.running_broker import BrokerProcess

pytestmark = pytest.mark.timeout(900)  # the jars may have to be fetched first
CONSUMER = "consumer.ConsoleConsumer"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "consumer.group.ConsumerGroupCommand"
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def tools(kafka: KafkaPrograms, broker: BrokerProcess) -> Iterator[JavaTools]:
    running = JavaTools(kafka, broker.kafka_address)
    yield running
    running.close()


@pytest.fixture
def java_topic(tools: JavaTools) -> str:
    """A topic of three partitions made by TopicCommand."""
    topic = f"java-{next(NUMBERS)}"
    said = tools.run("TopicCommand", "--create", "--topic", topic, "--partitions", "3")
    assert f"Created topic {topic}." in said
    return topic


@pytest.fixture
def filled(tools: JavaTools, java_topic: str) -> str:
    """The same with records `key N`, `value N`, N below 20, written by the console producer."""
    lines = "".join(f"key {number}:value {number}\n" for number in range(20))
    properties = ("parse.key=true", "key.separator=:")
    options = [part for each in properties for part in ("--reader-property", each)]
    tools.run("ConsoleProducer", "--topic", java_topic, *options, reads=lines)
    return java_topic


def offsets(said: str, topic: str) -> dict[int, int]:
    """What GetOffsetShell says of each partition."""
    found = re.findall(rf"^{topic}:(\d+):(\d+)$", said, re.MULTILINE)
    return {int(partition): int(offset) for partition, offset in found}


def test_given_the_broker_when_asked_for_its_versions_then_kafkas_client_knows_all_of_them(
    tools: JavaTools,
) -> None:
    said = tools.run("BrokerApiVersionsCommand")

    supported = re.findall(r"^\t(\w+)\((\d+)\): (\d+)(?: to (\d+))? \[usable: \d+\]", said, re.M)
    assert {"Produce", "Fetch", "Metadata", "CreateTopics"} <= {name for name, *_ in supported}
    assert "UNKNOWN" not in said


def test_given_a_topic_when_described_grown_and_deleted_then_it_is_so(
    tools: JavaTools, java_topic: str
) -> None:
    described = tools.run("TopicCommand", "--describe", "--topic", java_topic)
    assert "PartitionCount: 3" in described
    assert described.count("Leader: 1") == 3

    tools.run("TopicCommand", "--alter", "--topic", java_topic, "--partitions", "5")
    assert "PartitionCount: 5" in tools.run("TopicCommand", "--describe", "--topic", java_topic)

    tools.run("TopicCommand", "--delete", "--topic", java_topic)
    assert java_topic not in tools.run("TopicCommand", "--list").split()


def test_given_what_cannot_be_when_a_topic_is_made_then_the_tool_fails_and_says_why(
    tools: JavaTools, java_topic: str
) -> None:
    again = tools.attempt("TopicCommand", "--create", "--topic", java_topic)
    replicas = tools.attempt(
        "TopicCommand", "--create", "--topic", "refused", "--replication-factor", "3"
    )

    assert again.code == 1
    assert f"topic {java_topic} exists" in again.text
    assert replicas.code == 1
    assert "replication factor of 3" in replicas.text


def test_given_lines_when_produced_and_consumed_then_they_come_back(
    tools: JavaTools, filled: str
) -> None:
    said = tools.run(
        CONSUMER, "--topic", filled, "--from-beginning", "--max-messages", "20",
        "--timeout-ms", "20000", "--formatter-property", "print.key=true",
    )  # fmt: skip

    lines = sorted(re.findall(r"^key \d+\tvalue \d+$", said, re.MULTILINE))
    assert lines == sorted(f"key {number}\tvalue {number}" for number in range(20))


def test_given_a_partition_and_an_offset_when_consumed_then_it_starts_there(
    tools: JavaTools, filled: str
) -> None:
    ends = offsets(tools.run("GetOffsetShell", "--topic", filled), filled)
    partition = max(ends, key=lambda number: ends[number])

    said = tools.run(
        CONSUMER, "--topic", filled, "--partition", str(partition), "--offset",
        str(ends[partition] - 2), "--max-messages", "2", "--timeout-ms", "20000",
    )  # fmt: skip

    assert len(re.findall(r"^value \d+$", said, re.MULTILINE)) == 2
    assert "Processed a total of 2 messages" in said


def test_given_records_when_get_offset_shell_asks_then_it_is_told_first_last_and_by_time(
    tools: JavaTools, filled: str
) -> None:
    def told(time: str) -> dict[int, int]:
        said = tools.run("GetOffsetShell", "--topic", filled, "--time", time)
        return offsets(said, filled)

    assert sum(told("latest").values()) == 20
    assert told("earliest") == dict.fromkeys(range(3), 0)
    assert told("1000").keys() == {number for number, end in told("latest").items() if end}
    assert sum(told("max-timestamp").values()) > 0


def test_given_the_performance_tools_when_run_then_every_record_arrives(tools: JavaTools) -> None:
    topic = "java-performance"
    produced = tools.run(
        "ProducerPerformance", "--topic", topic, "--num-records", "20000", "--record-size", "200",
        "--throughput", "-1", "--command-property", "compression.type=lz4",
    )  # fmt: skip
    consumed = tools.run(
        "ConsumerPerformance", "--topic", topic, "--num-records", "20000", "--timeout", "20000"
    )

    assert "20000 records sent" in produced
    assert consumed.strip().splitlines()[-1].split(", ")[4] == "20000"


def test_given_the_verifiable_producer_when_run_then_all_it_sent_was_acknowledged(
    kafka: KafkaPrograms, broker: BrokerProcess
) -> None:
    said = kafka.run(  # it ends its sending when its JVM ends
        "org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", broker.kafka_address,
        "--topic", "java-verifiable", "--max-messages", "50",
    )  # fmt: skip

    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert sum(event["name"] == "producer_send_success" for event in events) == 50
    assert events[-1]["acked"] == 50


def test_given_the_verifiable_consumer_when_run_then_it_joins_reads_commits_and_leaves(
    tools: JavaTools, filled: str
) -> None:
    said = tools.run(
        "VerifiableConsumer", "--topic", filled, "--group-id", f"of-{filled}", "--max-messages",
        "20", "--reset-policy", "earliest",
    )  # fmt: skip

    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert sum(event.get("count", 0) for event in events) == 20
    assert [event["success"] for event in events if event["name"] == "offsets_committed"]
    assert {"partitions_assigned", "partitions_revoked"} <= {event["name"] for event in events}


def test_given_a_setting_when_config_command_changes_it_then_it_is_told_with_its_source(
    tools: JavaTools, java_topic: str
) -> None:
    entity = ("--entity-type", "topics", "--entity-name", java_topic)

    tools.run(CONFIGS, "--alter", *entity, "--add-config", "retention.ms=7200000")
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=7200000" in tools.run(CONFIGS, "--describe", *entity)

    tools.run(CONFIGS, "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms" not in tools.run(CONFIGS, "--describe", *entity)
    everything = tools.run(CONFIGS, "--describe", "--all", *entity)
    assert "retention.ms=" in everything
    assert "cleanup.policy=delete" in everything


def test_given_a_bad_setting_when_config_command_tries_it_then_it_fails_and_says_why(
    tools: JavaTools, java_topic: str
) -> None:
    entity = ("--entity-type", "topics", "--entity-name", java_topic)

    said = tools.attempt(CONFIGS, "--alter", *entity, "--add-config", "retention.ms=soon")

    assert said.code == 1
    assert "InvalidConfigurationException" in said.text


def test_given_a_group_when_its_offsets_are_reset_then_its_next_member_starts_there(
    tools: JavaTools, filled: str
) -> None:
    group = f"group-of-{filled}"
    read = (
        CONSUMER, "--topic", filled, "--group", group, "--max-messages", "20",
        "--timeout-ms", "20000", "--command-property", "auto.offset.reset=earliest",
    )  # fmt: skip
    tools.run(*read)
    before = tools.run(GROUPS, "--describe", "--group", group)
    assert [int(lag) for lag in lags(before, filled)] == [0, 0, 0]
    assert group in tools.run(GROUPS, "--list").split()

    tools.run(
        GROUPS, "--reset-offsets", "--to-earliest", "--execute", "--group", group,
        "--topic", filled,
    )  # fmt: skip

    assert sum(map(int, lags(tools.run(GROUPS, "--describe", "--group", group), filled))) == 20
    assert "Processed a total of 20 messages" in tools.run(*read)
    tools.run(GROUPS, "--delete", "--group", group)
    assert group not in tools.run(GROUPS, "--list").split()


def lags(said: str, topic: str) -> list[str]:
    """The lag of each partition, as `--describe` prints it."""
    return re.findall(rf"^\S+ +{topic} +\d+ +\d+ +\d+ +(\d+)", said, re.MULTILINE)


def test_given_offsets_when_records_before_them_are_deleted_then_they_are_gone(
    tools: JavaTools, filled: str, tmp_path: Path
) -> None:
    ends = offsets(tools.run("GetOffsetShell", "--topic", filled), filled)
    wanted = [{"topic": filled, "partition": number, "offset": end} for number, end in ends.items()]
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": wanted}))

    said = tools.run("DeleteRecordsCommand", "--offset-json-file", file)

    assert said.count("low_watermark") == 3
    first = tools.run("GetOffsetShell", "--topic", filled, "--time", "earliest")
    assert offsets(first, filled) == ends


def test_given_a_topic_when_log_dirs_are_described_then_each_partition_is_there_with_its_size(
    tools: JavaTools, filled: str
) -> None:
    said = tools.run("LogDirsCommand", "--describe", "--topic-list", filled)

    (line,) = (line for line in said.splitlines() if line.startswith("{"))
    (broker,) = json.loads(line)["brokers"]
    partitions = {
        each["partition"]: each["size"]
        for directory in broker["logDirs"]
        for each in directory["partitions"]
    }
    assert sorted(partitions) == [f"{filled}-{number}" for number in range(3)]
    assert sum(partitions.values()) > 0
