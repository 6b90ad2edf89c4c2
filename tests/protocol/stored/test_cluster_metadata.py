"""ClusterMetadata: topics and settings from a KRaft controller's records."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import CorruptMessageError
from protocol.record_batch import iterate_batches, iterate_records
from protocol.stored.cluster_metadata import KafkaTopic, read_topics
from tests.support.damage import any_bytes, error_of

CONTROLLER = Path(__file__).parents[2] / "data/kafka-controller/__cluster_metadata-0"
LOG = CONTROLLER / "00000000000000000000.log"
ID = UUID("a2c892df-f587-498c-9a3b-dc300b802060")

# Written by hand from KIP-631: frame 1, api key, version, body, no tagged fields.
TOPIC = bytes.fromhex("01 02 00 05 6c6f6773") + ID.bytes + b"\0"
SETTING = bytes.fromhex("01 04 00 02 05 6c6f6773 0d") + b"retention.ms" + b"\x03-1\0"
SETTING_GONE = bytes.fromhex("01 04 00 02 05 6c6f6773 0d") + b"retention.ms" + b"\0\0"
BROKER_SETTING = bytes.fromhex("01 04 00 04 02 31 0d") + b"retention.ms" + b"\x03-1\0"
TOPIC_GONE = bytes.fromhex("01 09 00") + ID.bytes + b"\0"
OTHER = bytes.fromhex("01 1b 00 01 02 03")
LATER_FRAME = bytes.fromhex("02 02 00 05 6c6f6773") + ID.bytes + b"\0"


def test_given_changes_when_read_then_the_last_word_on_each_topic_counts() -> None:
    plain = {"logs": KafkaTopic("logs", ID, {})}
    kept = {"logs": KafkaTopic("logs", ID, {"retention.ms": "-1"})}

    assert read_topics([TOPIC, SETTING]) == kept
    assert read_topics([SETTING, TOPIC, OTHER, BROKER_SETTING, LATER_FRAME]) == kept
    assert read_topics([TOPIC, SETTING, SETTING_GONE]) == plain
    assert read_topics([TOPIC, SETTING, TOPIC_GONE]) == {}
    assert read_topics([TOPIC, SETTING, TOPIC_GONE, TOPIC]) == plain


def test_given_a_real_controllers_log_when_read_then_its_topics_are_known() -> None:
    data = LOG.read_bytes()
    values = [
        record.value
        for position, header in iterate_batches(data)
        if not header.is_control
        for record in iterate_records(data, position)
        if record.value is not None
    ]

    topics = read_topics(values)

    assert len(topics) == 17
    assert topics["codecs"] == KafkaTopic("codecs", ID, {"retention.ms": "-1"})
    assert topics["logappend"].settings["message.timestamp.type"] == "LogAppendTime"
    assert topics["__consumer_offsets"].settings["cleanup.policy"] == "compact"


@given(any_bytes(st.sampled_from([TOPIC, SETTING, TOPIC_GONE])))
def test_given_any_bytes_when_read_then_topics_or_our_error(value: bytes) -> None:
    error = error_of(lambda data: read_topics([data]), value)

    assert error is None or isinstance(error, CorruptMessageError)
