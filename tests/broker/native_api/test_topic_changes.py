"""ALTER_TOPIC and DELETE_RECORDS; their errors are in `test_error_table`."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from protocol.error_codes import ErrorCode
from protocol.native.topic_changes import encode_alter_topic, encode_delete_records
from tests.support.fake_disk import FakeDisk
from tests.support.native_broker import NativeBroker, batch

SMALL_SEGMENTS = {"segment.bytes": "150"}
"""A batch of one small record has 70 bytes or so: two to a segment."""


def alter(broker: NativeBroker, topic: str, changes: dict[str, str]) -> None:
    assert broker.send(encode_alter_topic(topic, changes)).status == (0, "")


def delete_records(broker: NativeBroker, *offsets: tuple[int, int]) -> list[tuple[int, int, int]]:
    error, results = broker.send(encode_delete_records("logs", offsets)).deleted
    assert error == 0
    return [tuple(each) for each in results]


def filled(broker: NativeBroker, count: int = 6, settings: dict[str, str] | None = None) -> None:
    broker.create_topic("logs", settings=settings)
    for number in range(count):
        broker.produce("logs", batch(b"%d" % number), acks=-1)


# --- ALTER_TOPIC ------------------------------------------------------------------------------


def test_given_settings_when_altered_then_those_named_change_and_the_log_has_them_at_once():
    with NativeBroker() as broker:
        broker.create_topic("logs", 2, {"retention.ms": "60000", "segment.ms": "7"})

        alter(broker, "logs", {"retention_ms": "5", "cleanup.policy": "compact, delete"})

        assert broker.manager.topic("logs").settings == {
            "segment.ms": "7",
            "retention.ms": "5",
            "cleanup.policy": "compact,delete",
        }
        for number in range(2):
            config = broker.partition("logs", number).log.config
            assert (config.retention_ms, config.segment_ms) == (5, 7)
            assert config.cleanup_policy == "compact,delete"


def test_given_a_setting_when_altered_to_nothing_then_the_default_counts_again_and_follows():
    with NativeBroker(settings={"topics.retention_ms": 77}) as broker:
        broker.create_topic("logs", settings={"retention.ms": "5", "segment.ms": "7"})

        alter(broker, "logs", {"retention.ms": "", "flush.ms": " "})

        assert broker.manager.topic("logs").settings == {"segment.ms": "7"}
        assert broker.partition("logs").log.config.retention_ms == 77


def test_given_nothing_to_change_when_altered_then_nothing_changes():
    with NativeBroker() as broker:
        broker.create_topic("logs", settings={"segment.ms": "7"})

        alter(broker, "logs", {})

        assert broker.manager.topic("logs").settings == {"segment.ms": "7"}


@pytest.mark.parametrize("seed", range(3))
def test_given_an_alteration_when_answered_then_a_power_cut_does_not_take_it(
    tmp_path: Path, seed: int
):
    disk, registry = FakeDisk(), tmp_path / "registry.sqlite"
    broker = NativeBroker(disk=disk, registry=registry).open()
    broker.create_topic("logs")
    alter(broker, "logs", {"retention.ms": "5"})
    broker.kill()
    disk.crash(Random(seed))

    with NativeBroker(disk=disk, registry=registry) as broker:
        assert broker.manager.topic("logs").settings == {"retention.ms": "5"}
        assert broker.partition("logs").log.config.retention_ms == 5


def test_given_smaller_segments_when_altered_then_the_next_appends_roll():
    with NativeBroker() as broker:
        filled(broker)
        assert len(broker.partition("logs").log.segments) == 1

        alter(broker, "logs", SMALL_SEGMENTS)
        for _ in range(4):
            broker.produce("logs", batch(b"x"))

        assert broker.partition("logs").log.segments.base_offsets == (0, 6, 8)


def test_given_a_flush_policy_when_altered_then_commits_follow_it():
    """Policy `os` commits at once, `commit` when it is synced."""
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs", settings={"flush.policy": "os"})
        assert broker.produce("logs", batch(b"a"), acks=-1).error == 0

        alter(broker, "logs", {"flush.policy": "commit"})
        sent = broker.produce("logs", batch(b"b"), acks=-1)
        assert sent.is_waiting
        broker.flushes.follow()
        broker.loop.settle()
        assert sent.error == 0


def test_given_a_shorter_retention_when_altered_then_the_next_round_follows_it():
    with NativeBroker() as broker:
        filled(broker, settings=SMALL_SEGMENTS)
        broker.loop.advance(1_000)
        assert len(broker.partition("logs").log.segments) == 3

        alter(broker, "logs", {"retention.ms": "500"})
        broker.loop.advance(broker.config.storage.retention_check_ms)

        assert broker.partition("logs").log.log_start_offset == 6


def test_given_a_bad_change_when_refused_then_the_text_says_what_would_do():
    with NativeBroker() as broker:
        broker.create_topic("logs")

        def said(name: str, value: str) -> str:
            return broker.send(encode_alter_topic("logs", {name: value})).status[1]

        assert said("retention.sm", "5") == (
            "there is no topic setting called 'retention.sm': did you mean retention.ms?"
        )
        assert said("weather", "5") == "there is no topic setting called 'weather'"
        assert "must be one of commit, interval, os, not 'never'" in said("flush.policy", "never")
        assert "retention.ms must be from -1 to" in said("retention.ms", "-2")


# --- DELETE_RECORDS ---------------------------------------------------------------------------


def test_given_records_when_deleted_then_the_log_starts_there_and_reads_below_are_told():
    with NativeBroker() as broker:
        filled(broker)

        assert delete_records(broker, (0, 4)) == [(0, 0, 4)]

        assert broker.partition("logs").log.log_start_offset == 4
        assert broker.fetch("logs", 3).error == ErrorCode.OFFSET_OUT_OF_RANGE
        assert broker.fetch("logs", 0).error == ErrorCode.OFFSET_OUT_OF_RANGE
        assert broker.fetch("logs", 4).error == 0
        assert delete_records(broker, (0, 2)) == [(0, 0, 4)]  # is so already


def test_given_minus_one_when_deleted_then_everything_committed_goes_and_nothing_else():
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a", b"b"))
        broker.flushes.release()
        broker.loop.settle()
        broker.produce("logs", batch(b"c"))  # not synced, so not committed

        sent = broker.send(encode_delete_records("logs", [(0, -1)]))
        broker.flushes.follow()
        broker.loop.settle()

        assert [tuple(each) for each in sent.deleted[1]] == [(0, 0, 2)]
        assert broker.fetch("logs", 2).error == 0
        assert broker.partition("logs").log.log_end_offset == 3


def test_given_several_partitions_when_deleted_then_each_has_its_result_in_order():
    with NativeBroker() as broker:
        broker.create_topic("logs", 3)
        for number in range(3):
            broker.produce("logs", batch(b"a", b"b"), partition=number, acks=-1)

        results = delete_records(broker, (2, 1), (9, 1), (0, 3), (2, 2), (1, -1))

        assert results == [(2, 0, 2), (9, 3, -1), (0, 1, -1), (2, 0, 2), (1, 0, 2)]
        starts = [broker.partition("logs", n).log.log_start_offset for n in range(3)]
        assert starts == [0, 2, 2]


def test_given_a_deletion_when_its_log_start_is_not_saved_yet_then_there_is_no_answer():
    with NativeBroker(hold_flush=True, settings={"topics.flush_policy": "os"}) as broker:
        filled(broker)
        broker.flushes.release()
        broker.loop.settle()

        sent = broker.send(encode_delete_records("logs", [(0, 4)]))

        assert sent.is_waiting
        assert sent.pauses_reading
        broker.loop.advance(10)
        assert b"logs 0 4" not in broker.disk.read_file(Path("/data/log-start-offset-checkpoint"))
        broker.flushes.follow()
        broker.loop.settle()
        assert sent.deleted[1][0].log_start_offset == 4
        assert b"logs 0 4" in broker.disk.read_file(Path("/data/log-start-offset-checkpoint"))


@pytest.mark.parametrize("policy", ["commit", "os"])
@pytest.mark.parametrize("seed", range(4))
def test_given_a_deletion_when_answered_then_neither_kill_nor_power_cut_brings_records_back(
    tmp_path: Path, policy: str, seed: int
):
    """Under policy `os` the log start may pass what was ever synced: the log then begins there."""
    disk, registry = FakeDisk(), tmp_path / "registry.sqlite"
    broker = NativeBroker(disk=disk, registry=registry).open()
    filled(broker, settings=SMALL_SEGMENTS | {"flush.policy": policy})
    assert delete_records(broker, (0, 5)) == [(0, 0, 5)]
    if seed % 2:
        broker.loop.advance(200)  # segments leave the list, and are renamed
    broker.kill()
    if seed < 2:
        disk.kill()
    else:
        disk.crash(Random(seed))

    with NativeBroker(disk=disk, registry=registry) as broker:
        log = broker.partition("logs").log
        assert log.log_start_offset == 5
        assert log.log_end_offset >= 5
        assert broker.fetch("logs", 4).error == ErrorCode.OFFSET_OUT_OF_RANGE
        assert broker.fetch("logs", 5).error == 0
        assert broker.produce("logs", batch(b"on"), acks=-1).produced.base_offset >= 5


def test_given_a_deletion_when_answered_then_its_segments_go_without_waiting_for_the_round():
    """R38"""
    with NativeBroker() as broker:
        filled(broker, settings=SMALL_SEGMENTS)
        broker.loop.advance(1_000)

        delete_records(broker, (0, 5))
        broker.loop.advance(200)

        assert broker.partition("logs").log.segments.base_offsets == (4,)
        assert broker.fetch("logs", 5).error == 0


def test_given_a_broker_that_has_failed_when_records_are_deleted_then_it_is_told():
    """Nothing is saved any more: nobody must wait for it."""
    with NativeBroker(hold_flush=True, settings={"topics.flush_policy": "os"}) as broker:
        filled(broker)
        waiting = broker.send(encode_delete_records("logs", [(0, 4)]))
        assert waiting.is_waiting

        broker.manager.flusher.fail(OSError(5, "Input/output error"))
        broker.loop.settle()

        assert [each.error for each in waiting.deleted[1]] == [ErrorCode.KAFKA_STORAGE_ERROR]
        after = broker.send(encode_delete_records("logs", [(0, 4)]))
        assert [each.error for each in after.deleted[1]] == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_given_requests_when_handled_then_they_are_counted():
    with NativeBroker() as broker:
        filled(broker)
        delete_records(broker, (0, 2), (0, 99))
        alter(broker, "logs", {})
        broker.send(encode_alter_topic("logs", {"no": "1"}))

        deleted, altered = broker.requests("delete_records"), broker.requests("alter_topic")

        assert (deleted.count, deleted.latency.count, deleted.errors) == (1, 1, {1: 1})
        assert (altered.count, altered.latency.count, altered.errors) == (2, 2, {40: 1})
