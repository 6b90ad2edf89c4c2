"""Topic settings: names, texts, ranges, and what is refused with which reason."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import topic_settings
from broker.storage.log_config import CleanupPolicy, FlushPolicy, LogConfig, MessageTimestampType
from protocol.errors import InvalidConfigError
from protocol.limits import TOPIC_SETTINGS_MAX

# Every topic setting of Apache Kafka 3.9 and 4.x (docs, "Topic Configs"), with a legal value.
KAFKA_SETTINGS = {
    "cleanup.policy": "compact",
    "compression.gzip.level": "6",
    "compression.lz4.level": "9",
    "compression.type": "zstd",
    "compression.zstd.level": "3",
    "delete.retention.ms": "1",
    "file.delete.delay.ms": "0",
    "flush.messages": "1",
    "flush.ms": "1000",
    "follower.replication.throttled.replicas": "0:1",
    "index.interval.bytes": "0",
    "leader.replication.throttled.replicas": "*",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "internal.segment.bytes": "1024",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "2000000",
    "message.downconversion.enable": "true",
    "message.format.version": "3.0-IV1",
    "message.timestamp.after.max.ms": "9223372036854775807",
    "message.timestamp.before.max.ms": "0",
    "message.timestamp.difference.max.ms": "9223372036854775807",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "2",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "segment.bytes": "2147483647",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "1",
    "unclean.leader.election.enable": "true",
}


def test_given_all_kafka_settings_when_checked_then_they_are_kept_as_given():
    checked = topic_settings.checked_settings(KAFKA_SETTINGS)

    assert checked == KAFKA_SETTINGS


def test_given_underscored_names_when_checked_then_the_dotted_names_come_out():
    checked = topic_settings.checked_settings({"retention_ms": "5", "flush_policy": "OS"})

    assert checked == {"retention.ms": "5", "flush.policy": "os"}


def test_given_settings_when_applied_then_only_their_fields_differ_from_the_defaults():
    defaults = LogConfig(segment_bytes=1 << 20)

    config = topic_settings.log_config(
        {
            "cleanup.policy": "delete, compact",
            "flush.policy": "interval",
            "message.timestamp.type": "LogAppendTime",
            "min.insync.replicas": "1",
            "preallocate": "TRUE",
            "retention_ms": " 60000 ",
        },
        defaults,
    )

    assert config == msgspec.structs.replace(
        defaults,
        cleanup_policy=CleanupPolicy.DELETE_COMPACT,
        flush_policy=FlushPolicy.INTERVAL,
        message_timestamp_type=MessageTimestampType.LOG_APPEND_TIME,
        retention_ms=60_000,
    )


def test_given_the_deprecated_difference_when_applied_then_it_stands_for_both_bounds():
    config = topic_settings.log_config(
        {"message.timestamp.difference.max.ms": "7", "message.timestamp.after.max.ms": "9"},
        LogConfig(),
    )

    assert config.message_timestamp_before_max_ms == 7
    assert config.message_timestamp_after_max_ms == 9


def test_given_segments_for_kafkas_own_tests_when_applied_then_they_win():
    settings = {"internal.segment.bytes": "1024", "segment.bytes": "1048576"}

    assert topic_settings.log_config(settings, LogConfig()).segment_bytes == 1024


@pytest.mark.parametrize(
    ("text", "kept", "deletes", "compacts"),
    [
        ("delete,compact", "delete,compact", True, True),
        (" Compact , DELETE ", "compact,delete", True, True),
        ("delete,delete", "delete", True, False),
        ("compact", "compact", False, True),
        ("", "", False, False),
    ],
)
def test_given_a_cleanup_policy_when_checked_then_its_order_stays_for_who_compares(
    text: str, kept: str, deletes: bool, compacts: bool
):
    settings = topic_settings.checked_settings({"cleanup.policy": text})
    policy = topic_settings.log_config(settings, LogConfig()).cleanup_policy

    assert settings == {"cleanup.policy": kept}
    assert (policy.deletes, policy.compacts) == (deletes, compacts)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("no.such.setting", "1", "no topic setting"),
        ("retention.ms", "a week", "whole number"),
        ("retention.ms", "1_000", "whole number"),
        ("retention.ms", "٣", "whole number"),
        ("retention.ms", "-2", "from -1"),
        ("retention.ms", "9223372036854775808", "to 9223372036854775807"),
        ("retention.ms", "9" * 5000, "whole number"),
        ("segment.bytes", "13", "from 14"),
        ("segment.bytes", "2147483648", "to 2147483647"),
        ("segment.index.bytes", "11", "from 12"),
        ("segment.ms", "0", "from 1"),
        ("min.cleanable.dirty.ratio", "nan", "from 0 to 1"),
        ("min.cleanable.dirty.ratio", "1.1", "from 0 to 1"),
        ("min.cleanable.dirty.ratio", "much", "from 0 to 1"),
        ("cleanup.policy", "delete,", "delete, compact"),
        ("cleanup.policy", "delete,burn", "delete, compact"),
        ("compression.gzip.level", "0", "from 1 to 9, or -1"),
        ("compression.gzip.level", "10", "from -1 to 9"),
        ("follower.replication.throttled.replicas", "0", "PARTITION:BROKER"),
        ("leader.replication.throttled.replicas", "0:1,*", "PARTITION:BROKER"),
        ("compression.type", "none", "one of producer"),
        ("compression.type", "brotli", "one of producer"),
        ("message.timestamp.type", "createtime", "one of CreateTime"),
        ("flush.policy", "never", "one of commit"),
        ("preallocate", "yes", "true or false"),
        ("remote.storage.enable", "true", "no remote storage"),
        ("min.insync.replicas", "0", "from 1"),
        ("message.format.version", "é" * 20_000, "at most 32767 bytes"),
        ("retention.ms", " " * 32_767 + "5", "at most 32767 bytes"),
    ],
)
def test_given_a_bad_setting_when_checked_then_the_reason_is_named(name, text, reason):
    with pytest.raises(InvalidConfigError) as raised:
        topic_settings.checked_settings({name: text})

    assert reason in str(raised.value)
    assert len(str(raised.value)) < 400  # a hostile value is not repeated whole


def test_given_one_setting_under_both_names_when_checked_then_it_is_refused():
    with pytest.raises(InvalidConfigError, match="twice"):
        topic_settings.checked_settings({"retention.ms": "1", "retention_ms": "2"})


def test_given_too_many_settings_when_checked_then_they_are_refused_unread():
    settings = {f"name{i}": "" for i in range(TOPIC_SETTINGS_MAX + 1)}

    with pytest.raises(InvalidConfigError, match="more than"):
        topic_settings.checked_settings(settings)


def test_given_contradicting_lags_when_applied_then_they_are_refused():
    with pytest.raises(InvalidConfigError, match=r"min\.compaction\.lag\.ms"):
        topic_settings.log_config(
            {"min.compaction.lag.ms": "5"}, LogConfig(max_compaction_lag_ms=4)
        )


@given(
    st.builds(
        LogConfig,
        cleanup_policy=st.sampled_from(CleanupPolicy),
        compression_type=st.sampled_from(topic_settings.COMPRESSION_TYPES),
        flush_policy=st.sampled_from(FlushPolicy),
        flush_ms=st.integers(0, 2**63 - 1),
        message_timestamp_type=st.sampled_from(MessageTimestampType),
        min_cleanable_dirty_ratio=st.floats(0, 1),
        retention_bytes=st.integers(-1, 2**63 - 1),
    )
)
def test_given_any_config_when_described_and_parsed_then_it_is_the_same(config):
    described = topic_settings.describe(config)

    assert topic_settings.log_config(described, LogConfig()) == config
