"""KafkaJS, franz-go and kcat, from one end to the other."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable

import pytest

from tests.clients.adapters import programs
from tests.support.running_broker import BrokerProcess

pytestmark = pytest.mark.timeout(900)  # what they are made of may have to be fetched first
RUN_TIMEOUT_S = 60


def run(command: Iterable[str], reads: str = "", environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        list(command),
        input=reads,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_given_kafkajs_when_it_writes_and_reads_in_a_group_then_everything_is_as_it_sent_it(
    broker: BrokerProcess,
) -> None:
    said = json.loads(run([*programs.kafkajs(), broker.kafka_address, "of-kafkajs"]))

    records = sorted(
        said["first"] + said["second"], key=lambda each: int(each["key"].removeprefix("key "))
    )
    assert len(said["first"]) == 25
    assert [(each["partition"], each["offset"]) for each in records] == [
        (number % 2, str(number // 2)) for number in range(50)
    ]
    assert [(each["value"], each["header"]) for each in records] == [
        (None if number % 7 == 3 else f"value {number}", f"header {number}") for number in range(50)
    ]
    assert {each["high"] for each in said["offsets"]} == {"25"}
    assert said["error"] == "INVALID_PARTITIONS"
    assert "of-kafkajs" not in said["topics"]


def test_given_franz_go_when_it_writes_and_reads_in_a_group_then_everything_is_as_it_sent_it(
    broker: BrokerProcess,
) -> None:
    said = json.loads(run([*programs.franz_go(), broker.kafka_address, "of-franz-go"]))

    records = sorted(
        said["first"] + said["second"], key=lambda each: int(each["Key"].removeprefix("key "))
    )
    assert [tuple(each.values()) for each in records] == [
        (number % 2, number // 2, f"key {number}", f"value {number}", f"header {number}")
        for number in range(50)
    ]
    assert said["again"].startswith("TOPIC_ALREADY_EXISTS")


def test_given_kcat_when_a_user_writes_lists_and_reads_with_it_then_it_works(
    broker: BrokerProcess,
) -> None:
    command, environment = programs.kcat()

    def kcat(*arguments: str, reads: str = "") -> str:
        return run([*command, "-b", broker.kafka_address, *arguments], reads, environment)

    lines = [f"key {number}:value {number}" for number in range(20)]
    kcat("-P", "-t", "of-kcat", "-K:", "-z", "lz4", "-H", "of=header", reads="\n".join(lines))

    assert 'topic "of-kcat" with 1 partitions' in kcat("-L")
    read = kcat("-C", "-t", "of-kcat", "-e", "-o", "beginning", "-f", "%o %k:%s %h\n")
    assert read.splitlines() == [f"{number} {line} of=header" for number, line in enumerate(lines)]
    assert kcat("-C", "-t", "of-kcat", "-e", "-o", "-3", "-f", "%o ") == "17 18 19 "
    assert kcat("-Q", "-t", "of-kcat:0:-1").split() == ["of-kcat", "[0]", "offset", "20"]
    in_group = kcat("-G", "of-kcat", "-e", "-X", "auto.offset.reset=earliest", "of-kcat")
    assert len(in_group.splitlines()) == 20
