"""Kafka's Java client in what its command line tools leave out; see programs/java.

Each scenario is one run of the program, which says what it saw; what that must be, is here.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from protocol.limits import INT64_MAX
from tests.clients.adapters import programs
from tests.support.kafka_jars import KafkaPrograms
from tests.support.running_broker import BrokerProcess

pytestmark = pytest.mark.timeout(900)  # the jars may have to be fetched first
RUN_TIMEOUT_S = 60
NUMBERS = itertools.count()

Run = Callable[[str], dict[str, Any]]


@pytest.fixture
def run(kafka: KafkaPrograms, broker: BrokerProcess) -> Run:
    """Go through a scenario; the name of its topic is `topic` in what it says."""

    def go(scenario: str) -> dict[str, Any]:
        topic = f"java-program-{next(NUMBERS)}"
        done = subprocess.run(
            [*programs.java(kafka), scenario, broker.kafka_address, topic],
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said | {"topic": topic}

    return go


def types(refused: dict[str, dict[str, str] | None]) -> dict[str, str | None]:
    """Return the class of each exception; None where nothing was raised."""
    return {name: each and each["type"] for name, each in refused.items()}


def test_given_records_of_each_codec_when_a_consumer_seeks_then_it_finds_them_as_they_were_sent(
    run: Run,
) -> None:
    said = run("records")

    assert said["sent"] == list(range(50))
    assert said["read"] == [
        {
            "offset": number,
            "time": number * 1_000,
            "key": f"key {number}",
            "value": None if number % 7 == 3 else f"value {number}",
            "header": f"of=header {number}, without=null",
        }
        for number in range(50)
    ]
    assert said["sought"] == {
        "after all": 50, "to 17": 17, "to 0": 0, "to 49": 49, "to beginning": 0, "to end": 50,
    }  # fmt: skip
    assert said["places"] == {
        "beginning": 0,
        "end": 50,
        "at -1": [0, 0],
        "at 0": [0, 0],
        "at 17000": [17, 17_000],
        "at 17001": [18, 18_000],
        "at 49000": [49, 49_000],
        "at 49001": None,
    }
    assert said["paused"] == [{"1": 3}, {"0": 50}]
    assert said["resets"] == {"earliest": 20, "latest": 50, "by_duration:P1D": 20}
    assert types(said["refused"]) == {
        "deleted": "OffsetOutOfRangeException",
        "behind the end": "OffsetOutOfRangeException",
        "truncated": "LogTruncationException",
    }


def test_given_static_members_when_one_comes_back_or_is_replaced_then_the_other_sees_nothing_of_it(
    run: Run,
) -> None:
    said = run("static-members")

    stays, goes = said["stays"], said["goes"]
    assert sorted(stays["partitions"] + goes["partitions"]) == [0, 1, 2, 3]
    assert said["comes back"] == said["replaces"] == goes
    assert said["has a new id"]
    assert said["fenced"]["type"] == "FencedInstanceIdException"
    assert said["stays in the end"] == stays
    assert said["told who stays"] == []


def test_given_cooperative_members_when_one_joins_and_leaves_then_only_what_moves_is_given_up(
    run: Run,
) -> None:
    said = run("cooperative-members")

    moved, kept = said["moved"], said["kept"]
    assert (len(moved), sorted(moved + kept)) == (3, list(range(6)))
    assert said["second"] == [{"what": "assigned", "partitions": moved}]
    assert said["first"] == [
        {"what": "assigned", "partitions": list(range(6))},
        {"what": "revoked", "partitions": moved},
        {"what": "assigned", "partitions": moved},
    ]


def test_given_a_group_when_an_operator_looks_at_it_and_changes_it_then_it_is_so(run: Run) -> None:
    said = run("groups")

    half_way = {"offset": 5, "metadata": "half way"}
    by_operator = {"offset": 3, "metadata": "by an operator"}
    assert said["committed"] == {"0": half_way, "1": None}
    assert said["with a member"] == {
        "described": {
            "state": "Stable",
            "assignor": "range",
            "members": [{"instance": "one", "partitions": [0, 1]}],
        },
        "listed as": ["Stable Classic"],
        "offsets": {"0": half_way},
    }
    assert types(said["refused with a member"]) == {
        "alter offsets": "UnknownMemberIdException",
        "delete offsets": "GroupSubscribedToTopicException",
        "delete group": "GroupNotEmptyException",
        "remove a stranger": "UnknownMemberIdException",
    }
    assert said["after it closed"] == "Stable"
    assert said["without members"] == {
        "described": {"state": "Empty", "assignor": "", "members": []},
        "listed as": ["Empty Classic"],
        "offsets": {"0": half_way},
    }
    assert said["altered"] == {"0": by_operator, "1": {"offset": 0, "metadata": ""}}
    assert said["goes on at"] == 3
    assert said["without the second"] == {"0": by_operator}
    assert said["offsets of a deleted group"] == {}
    assert types(said["refused without a group"]) == {
        "describe": "GroupIdNotFoundException",
        "delete": "GroupIdNotFoundException",
    }


def test_given_a_topic_when_made_grown_described_and_deleted_by_its_id_then_it_is_so(
    run: Run,
) -> None:
    said = run("topics")

    made = {
        "partitions": 2, "replicas": 1, "retentionMs": "7200000", "cleanupPolicy": "compact,delete",
    }  # fmt: skip
    described = {
        "name": said["topic"],
        "hasThatId": True,
        "partitions": [
            {"number": number, "leader": 1, "replicas": 1, "inSync": 1} for number in range(3)
        ],
    }
    assert (said["only validated"], said["is there after that"]) == (made, False)
    assert (said["made"], said["is there"]) == (made, True)
    assert said["by name"] == said["by id"] == described
    assert types(said["refused"]) == {
        "made again": "TopicExistsException",
        "three replicas": "InvalidReplicationFactorException",
        "bad name": "InvalidTopicException",
        "no partitions": "InvalidPartitionsException",
        "bad setting": "InvalidConfigurationException",
        "fewer partitions": "InvalidPartitionsException",
    }
    assert not said["is there in the end"]
    assert types(said["refused in the end"]) == {
        "by name": "UnknownTopicOrPartitionException",
        "by id": "UnknownTopicIdException",
        "deleted by id": "UnknownTopicIdException",
        "deleted by name": "UnknownTopicOrPartitionException",
    }


NAMES_OF_DEFAULTS = {
    "retention.ms": ("log.retention.ms", "604800000", "LONG"),
    "max.message.bytes": ("message.max.bytes", "1048588", "INT"),
    "cleanup.policy": ("log.cleanup.policy", "delete", "LIST"),
}
"""What a topic's settings are called in the broker's configuration, their values there, types."""


def settings(**own: str) -> dict[str, Any]:
    """Settings as they are described where these are the topic's own; names with `_` for `.`."""
    described = {}
    for name, (broker_name, default, kind) in NAMES_OF_DEFAULTS.items():
        value = own.get(name.replace(".", "_"))
        source = "DEFAULT_CONFIG" if value is None else "DYNAMIC_TOPIC_CONFIG"
        synonyms = [f"{broker_name}={default} DEFAULT_CONFIG"]
        if value is not None:
            synonyms.insert(0, f"{name}={value} {source}")
        described[name] = {
            "value": value or default, "source": source, "type": kind, "synonyms": synonyms,
        }  # fmt: skip
    return described


def test_given_settings_when_changed_one_by_one_then_they_are_told_with_their_sources(
    run: Run,
) -> None:
    said = run("settings")

    assert said["at first"] == settings()
    assert said["set"] == settings(retention_ms="7200000", max_message_bytes="2000")
    assert said["deleted and appended"] == settings(
        max_message_bytes="2000", cleanup_policy="delete,compact"
    )
    assert said["subtracted"] == settings(max_message_bytes="2000", cleanup_policy="compact")
    assert said["only validated"] == said["subtracted"]
    assert said["settings without a text"] == []
    assert said["of the broker"] == {
        "value": "1",
        "source": "DEFAULT_CONFIG",
        "type": "INT",
        "synonyms": ["num.partitions=1 DEFAULT_CONFIG"],
    }
    assert said["resources"] == ["BROKER", "TOPIC"]
    assert types(said["refused"]) == {
        "bad value": "InvalidConfigurationException",
        "no such setting": "InvalidConfigurationException",
        "append to a number": "InvalidConfigurationException",
        "of the broker": "InvalidRequestException",
        "of no topic": "UnknownTopicOrPartitionException",
        "described of no topic": "UnknownTopicOrPartitionException",
    }
    reason = said["refused"]["bad value"]["reason"]
    assert reason == f"retention.ms must be a whole number from -1 to {INT64_MAX}, not 'soon'"


def cluster_id(broker: BrokerProcess) -> str:
    """The id of the broker's cluster, as it stands in its data directory."""
    text = (broker.data_directory / "meta.properties").read_text()
    properties = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return properties["cluster.id"]


def test_given_records_when_an_admin_client_asks_for_them_then_it_is_told_where_and_whose(
    run: Run, broker: BrokerProcess
) -> None:
    said = run("data")

    def place(offset: int, time: int = -1, epoch: int | None = 0) -> dict[str, int | None]:
        return {"offset": offset, "time": time, "epoch": epoch}

    nowhere = place(-1, epoch=None)
    assert said["places"] == {
        "earliest": place(0),
        "latest": place(10),
        "largest time": place(4, 10_000),
        "by time": place(3, 3_000),
        "by time, out of order": place(4, 10_000),
        "by time, behind all": nowhere,
        "earliest local": place(0),
        "latest tiered": nowhere,
        "earliest pending upload": nowhere,
    }
    assert said["producers"] == [
        {"epoch": 0, "lastSequence": 9, "lastTime": 10_000, "isInTransaction": False}
    ]
    assert said["directories"] == [{"partitions": [0, 1], "hasRecords": True, "tellsItsRoom": True}]
    port = broker.kafka_address.rpartition(":")[2]
    assert said["cluster"] == {
        "nodes": [f"1 localhost:{port}"],
        "controller": 1,
        "id": cluster_id(broker),
        "operations": [
            "ALTER", "ALTER_CONFIGS", "CLUSTER_ACTION", "CREATE", "DESCRIBE", "DESCRIBE_CONFIGS",
            "IDEMPOTENT_WRITE",
        ],
    }  # fmt: skip
    assert said["deleted before 3"] == 3
    assert said["earliest after that"] == place(3)
    assert said["deleted behind the end"]["type"] == "OffsetOutOfRangeException"
    assert said["deleted all"] == 10
    assert said["latest after that"] == place(10)
    assert said["largest time after that"] == nowhere


def test_given_what_is_not_built_yet_when_asked_for_then_the_client_is_told_so_and_does_not_wait(
    run: Run,
) -> None:
    said = run("not-offered")

    del said["topic"]
    assert types(said) == {
        "quotas": "UnsupportedVersionException",
        "acls": "UnsupportedVersionException",
        "transactions": "UnsupportedVersionException",
        "a transactional producer": "KafkaException",  # after a hang it were a TimeoutException
    }
    reason = said["a transactional producer"]["reason"]
    assert reason.endswith("transactions are not served by this broker")
