"""What was found on the disk is checked before it is answered with: in steps, not in one go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.storage import segment_check
from broker.storage.file_records import FileRecords
from broker.storage.file_slice import FileSlice
from broker.storage.log_config import LogConfig
from broker.storage.segment_check import CHECK_BATCHES_MAX, STEP_BATCHES, BytesUncheckedError
from protocol.error_codes import ErrorCode
from protocol.errors import CorruptMessageError, OffsetOutOfRangeError
from protocol.native import requests
from protocol.record_batch import iterate_batches, iterate_records
from protocol.simple_message_set import iterate
from protocol.stored.file_names import log_file_name
from tests.support.fake_disk import FakeDisk
from tests.support.log_storage import NOW_MS, LogStorage, batch, batches, records_of
from tests.support.native_broker import NativeBroker
from tests.support.steps import observe_steps

COUNT = 2_000
ONE_SET = 1_000
"""So many batches are appended at once: an index has an entry for each set, as a follower's has."""
CONFIG = LogConfig(segment_bytes=1 << 20, index_interval_bytes=100, segment_index_bytes=2_400)


def restarted() -> LogStorage:
    """One segment of small batches, the value of a record is its offset; found after a stop."""
    storage = LogStorage(CONFIG)
    for start in range(0, COUNT, ONE_SET):
        storage.log.append(batches(*([b"%d" % n] for n in range(start, start + ONE_SET))))
    storage.flush()
    storage.restart()
    return storage


def unchecked(storage: LogStorage, offset: int, max_bytes: int = 1 << 20) -> BytesUncheckedError:
    with pytest.raises(BytesUncheckedError) as raised:
        storage.log.read(offset, max_bytes, at_once=False)
    return raised.value


@pytest.mark.parametrize("offset", [0, ONE_SET - 1, COUNT - 1])
def test_given_bytes_nobody_has_checked_when_read_then_small_steps_check_them(offset):
    storage = restarted()

    error = unchecked(storage, offset)
    ran = observe_steps(error.steps())
    found = records_of(storage.log.read(offset, 1 << 20, at_once=False))

    wanted = min(COUNT - offset, CHECK_BATCHES_MAX)
    passed_over = 0 if offset < ONE_SET else offset - ONE_SET  # from the index's entry on
    assert ran.steps >= (wanted + passed_over) / STEP_BATCHES
    assert found[0] == (offset, b"%d" % offset)
    assert len(found) >= wanted


def test_given_one_step_when_run_then_it_checks_no_more_than_its_share():
    storage = restarted()

    next(unchecked(storage, 0).steps())

    known = storage.log.active.check.unchecked.known_from(0)
    assert known.next_offset == STEP_BATCHES


def test_given_checked_bytes_when_read_again_then_nothing_is_to_be_checked():
    storage = restarted()
    observe_steps(unchecked(storage, 0).steps())

    for offset in range(0, CHECK_BATCHES_MAX, 100):
        found = records_of(storage.log.read(offset, 1, at_once=False))
        assert found == [(offset, b"%d" % offset)]


def test_given_one_reader_when_all_is_read_then_each_batch_is_checked_once(monkeypatch):
    storage, checked = restarted(), 0
    run = segment_check.sound_run

    def counted(*arguments: object) -> segment_check.SoundRun:
        nonlocal checked
        result = run(*arguments)
        checked += result.batches
        return result

    monkeypatch.setattr(segment_check, "sound_run", counted)
    offset = 0
    while offset < COUNT:
        try:
            offset = records_of(storage.log.read(offset, 1 << 20, at_once=False))[-1][0] + 1
        except BytesUncheckedError as error:
            observe_steps(error.steps())

    assert checked == COUNT
    assert storage.log.active.check.unchecked is None


def test_given_cold_bytes_when_checked_then_a_job_reads_them_ahead_first(monkeypatch):
    storage = restarted()
    error = unchecked(storage, 0)
    monkeypatch.setattr(FileSlice, "is_cold", lambda _: True)

    first = next(error.steps())

    assert first is not None
    assert first.__name__ == "read_ahead"
    assert storage.log.active.check.unchecked.known_from(0) is None


# --- what happens between two steps ---------------------------------------------------------------


def test_given_a_cut_between_two_steps_when_gone_on_then_the_steps_end():
    storage = restarted()
    steps = unchecked(storage, 0).steps()
    next(steps)

    storage.log.truncate_to(100)
    rest = list(steps)

    assert rest == []
    assert len(storage.records()) == 100


def test_given_a_deleted_segment_between_two_steps_when_gone_on_then_no_error_comes():
    storage = restarted()
    steps = unchecked(storage, 0).steps()
    next(steps)

    storage.log.roll()
    storage.log.advance_log_start(COUNT)
    assert storage.log.delete_old_segments(NOW_MS) == 1
    storage.directory.checkpoint()
    list(steps)

    with pytest.raises(OffsetOutOfRangeError):
        storage.log.read(0, 1 << 20, at_once=False)


def test_given_damage_in_a_later_step_when_checked_then_it_is_known_and_read_around():
    storage = LogStorage(CONFIG)
    storage.log.append(batches(*([b"%d" % n] for n in range(400))))
    storage.flush()
    storage.directory.close()
    position = sum(len(batch(b"%d" % n)) for n in range(300)) + 65
    storage.disk.open(storage.path / log_file_name(0)).write([b"\xff"], position)
    storage.restarted()

    observe_steps(unchecked(storage, 0).steps())
    found = records_of(storage.log.read(0, 1 << 20))

    assert [each.first_offset for each in storage.log.damage] == [300]
    assert found[-1][0] == 299
    with pytest.raises(CorruptMessageError):
        storage.log.read(300, 1 << 20, at_once=False)


# --- requests -------------------------------------------------------------------------------------


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[NativeBroker]:
    """With 1,000 records in a log that this process has not written."""
    disk = FakeDisk()
    before = NativeBroker(disk=disk)
    before.open()
    before.create_topic("logs")
    for start in range(0, 1_000, 100):
        values = [[b"%d" % n] for n in range(start, start + 100)]
        before.produce("logs", batches(*values))
    before.close()
    with NativeBroker(disk=disk) as after:
        monkeypatch.setattr(
            segment_check, "run_to_end", lambda _: pytest.fail("it was checked in one go")
        )
        yield after


def offsets_in(message_set: memoryview) -> list[int]:
    return [
        record.offset
        for position, _ in iterate_batches(message_set)
        for record in iterate_records(message_set, position)
    ]


def test_given_a_log_that_was_found_when_fetched_then_it_is_checked_in_steps(broker):
    sent = broker.fetch("logs", 0, settle=False)
    waits = sent.is_waiting
    broker.loop.settle()
    again = broker.fetch("logs", 0, max_bytes=1, settle=False)

    assert waits
    assert offsets_in(sent.fetched.message_set)[:CHECK_BATCHES_MAX] == [*range(CHECK_BATCHES_MAX)]
    assert not again.is_waiting  # what is checked is answered at once
    assert offsets_in(again.fetched.message_set)[0] == 0


def test_given_several_entries_when_fetched_together_then_all_are_answered(broker):
    entries = [("logs", 0, 700, 1), ("logs", 0, 5, len(batch(b"5"))), ("none", 0, 0, 500)]

    sent = broker.send(requests.encode_multi_fetch(1 << 20, 1, 0, 2, entries))
    _, sends = sent.multi_fetched

    assert [send.error for send in sends] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [offsets_in(send.message_set)[0] for send in sends[:2]] == [700, 5]


@pytest.mark.parametrize("message_format", [0, 1])
def test_given_simple_formats_when_fetched_then_it_is_checked_in_steps(broker, message_format):
    sent = broker.fetch("logs", 400, message_format=message_format)

    error, message_set = sent.fetched
    found = [(offset, bytes(value)) for offset, value in iterate(message_set, message_format)]
    assert error == 0
    assert found == [(n, b"%d" % n) for n in range(400, 1_000)]


def test_given_a_long_poll_when_its_bytes_are_unchecked_then_it_is_answered(broker):
    sent = broker.fetch("logs", 990, min_bytes=1, max_wait_ms=1_000)

    assert offsets_in(sent.fetched.message_set) == [*range(990, 1_000)]


def test_given_a_time_when_looked_up_then_what_it_rests_on_is_checked_in_steps(broker):
    sent = broker.send(requests.encode_offsets("logs", 0, NOW_MS - 1, 1))

    assert sent.offsets == (0, [0])


def test_given_a_sparse_index_when_first_read_then_the_way_there_is_searched_once(monkeypatch):
    """Between two entries there may be thousands of small batches."""
    storage, searches = restarted(), 0
    search = FileRecords.search_for

    def counted(*arguments: Any) -> Any:
        nonlocal searches
        searches += 1
        return search(*arguments)

    monkeypatch.setattr(FileRecords, "search_for", counted)
    observe_steps(unchecked(storage, COUNT - 1).steps())
    storage.log.read(COUNT - 1, 1, at_once=False)

    assert searches == 1
