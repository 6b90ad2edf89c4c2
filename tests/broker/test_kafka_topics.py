"""Topics of a Kafka directory are taken over with the settings that Kafka had, or carefully."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from broker.kafka_topics import kafka_topics, settings_to_adopt
from broker.storage.os_disk import OsDisk
from protocol.stored.cluster_metadata import KafkaTopic

CONTROLLER = Path(__file__).parents[1] / "data/kafka-controller/__cluster_metadata-0"
SEGMENT = CONTROLLER / "00000000000000000000.log"
ID = UUID(int=1)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A data directory with a controller's log."""
    (tmp_path / "__cluster_metadata-0").mkdir()
    shutil.copy(SEGMENT, tmp_path / "__cluster_metadata-0")
    return tmp_path


def test_given_a_controllers_log_when_read_then_topics_and_settings_are_known(directory) -> None:
    found = kafka_topics(OsDisk(), [directory])

    assert found["compacted"].settings["cleanup.policy"] == "compact"
    assert kafka_topics(OsDisk(), [directory / "elsewhere"]) == {}


def test_given_a_snapshot_when_read_then_it_counts_from_its_offset_on(directory) -> None:
    """Records below the newest snapshot are in it, or were undone before it."""
    metadata = directory / "__cluster_metadata-0"
    empty = metadata / "00000000000000000100-0000000001.checkpoint"
    empty.write_bytes(b"")
    everything = metadata / "00000000000000000999-0000000002.checkpoint"

    some = kafka_topics(OsDisk(), [directory])
    shutil.copy(SEGMENT, everything)

    assert 0 < len(some) < 17
    assert len(kafka_topics(OsDisk(), [directory])) == 17


@pytest.mark.parametrize("position", [70, 5000, 19000])
def test_given_a_damaged_controllers_log_when_read_then_nothing_is_taken_for_known(
    directory, position
) -> None:
    path = directory / "__cluster_metadata-0" / SEGMENT.name
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)

    assert kafka_topics(OsDisk(), [directory]) == {}


def test_given_a_torn_tail_when_read_then_what_is_whole_counts(directory) -> None:
    path = directory / "__cluster_metadata-0" / SEGMENT.name
    path.write_bytes(path.read_bytes()[:-3])

    assert len(kafka_topics(OsDisk(), [directory])) == 17


def test_given_settings_of_kafka_when_adopted_then_what_is_not_said_deletes_nothing() -> None:
    settings = {"cleanup.policy": "compact", "message.weather": "14", "segment.ms": "no"}

    known, lost = settings_to_adopt(KafkaTopic("t", ID, settings))

    assert settings_to_adopt(None) == ({"retention.ms": "-1", "retention.bytes": "-1"}, [])
    assert known == {"cleanup.policy": "compact", "retention.ms": "-1", "retention.bytes": "-1"}
    assert lost[0] == "message.weather=14: Tidelog has no such setting"
    assert [sentence.partition("=")[0] for sentence in lost[1:]] == ["segment.ms"]
    assert settings_to_adopt(KafkaTopic("t", ID, {"retention.ms": "5"}))[0]["retention.ms"] == "5"
