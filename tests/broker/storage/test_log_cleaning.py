"""Cleaned segments are put in the place of the old ones: readers, crashes, faults, cuts (R31, R39).

A story is told on a disk in memory that ends before its 1st, 2nd, 3rd, ... change. What must hold
afterwards is always the same: the last value of every acknowledged key is there, whatever else is
there stood in the log at that offset, and the log goes on at its end.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from random import Random

import msgspec
import pytest

from broker.steps import run_to_end
from broker.storage.cleanable_log import cleaning_job, plan_log
from broker.storage.compactor import clean_log
from broker.storage.housekeeping import Housekeeping
from broker.storage.log_config import CleanupPolicy
from protocol.errors import StorageError, TidelogError
from protocol.record_batch import iterate_batches, iterate_records
from protocol.stored.checkpoint import offset_checkpoint_decode
from protocol.stored.file_names import CLEANER_CHECKPOINT
from tests.support.cleaning import clean_storage
from tests.support.fake_disk import SimulatedCrash
from tests.support.log_storage import PARTITION, ROOT, SMALL_SEGMENTS, LogStorage, batch
from tests.support.producers import send_in_transaction

CONFIG = msgspec.structs.replace(
    SMALL_SEGMENTS,
    segment_bytes=300,
    cleanup_policy=CleanupPolicy.COMPACT,
    file_delete_delay_ms=1_000,
    delete_retention_ms=50_000,
)


class Story:
    """A log of keys and values, and what was acknowledged of it."""

    def __init__(self, seed: int = 0, config=CONFIG) -> None:
        self.storage = LogStorage(config, seed=seed)
        self.housekeeping = Housekeeping(self.storage.directory)
        self.sent: list[tuple[bytes, bytes | None]] = []
        self.acknowledged = 0
        self.random = Random(seed)
        self.is_cut = False
        """Later values, which took earlier ones along, were cut off."""

    def append(self, count: int, keys: int = 5) -> None:
        for _ in range(count):
            number = len(self.sent)
            key = b"key%d" % self.random.randrange(keys)
            value = None if self.random.random() < 0.2 else b"value%d" % number
            self.sent.append((key, value))
            data = batch(value, key=key, timestamp=self.storage.clock.now_ms())
            assert self.storage.log.append(data).first_offset == number

    def flush(self) -> None:
        self.storage.flush()
        self.acknowledged = self.storage.log.high_watermark

    def housekeep(self, ms: int = 1_000) -> None:
        self.storage.clock.advance(ms=ms)
        self.housekeeping.run_due(self.storage.clock.monotonic())

    def clean(self, **settings) -> int:
        return clean_storage(self.storage, **settings)

    def prepare(self) -> None:
        """What is there before the story."""
        self.append(11)
        self.flush()
        self.housekeep()

    def tell(self) -> None:
        """Clean in two passes with a small map, append, clean after tombstones are due, restart."""
        self.clean(dedupe_buffer_bytes=120)
        self.housekeep(60_000)
        self.append(5)
        self.flush()
        self.housekeep()
        self.clean()
        self.storage.directory.close()
        self.storage.open()

    def records(self) -> list[tuple[int, bytes, bytes | None]]:
        """Offset, key and value of all that a consumer is given, from the log start."""
        log = self.storage.log
        found: list[tuple[int, bytes, bytes | None]] = []
        offset = log.log_start_offset
        while offset < log.high_watermark:
            data = log.read(offset, 1 << 20)
            before = offset
            for piece in data.slices:
                content = piece.read()
                for position, header in iterate_batches(content):
                    found += [
                        (record.offset, record.key or b"", record.value)
                        for record in iterate_records(content, position)
                        if record.offset >= before
                    ]
                    offset = header.next_offset
            if offset == before:
                break
        return found

    def check(self) -> None:
        log = self.storage.log
        found = self.records()
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        assert self.acknowledged <= log.log_end_offset <= len(self.sent)
        assert not log.damage
        for offset, key, value in found:
            assert self.sent[offset] == (key, value)
        left = {key: value for _, key, value in found}
        wanted = dict(self.sent[: log.high_watermark])
        for key, value in wanted.items() if not self.is_cut else ():
            assert left.get(key) == value, key  # a tombstone may be gone
        self.storage.check_invariants()
        for offset in range(log.log_start_offset, log.high_watermark, 3):
            first = next((each for each in found if each[0] >= offset), None)
            assert self.first_from(offset) == first

    def first_from(self, offset: int) -> tuple[int, bytes, bytes | None] | None:
        """The first record that a read from `offset` on gives."""
        log = self.storage.log
        while offset < log.high_watermark:
            data = log.read(offset, 1)
            if not data.slices:
                return None
            content = data.slices[0].read()
            for position, header in iterate_batches(content):
                for record in iterate_records(content, position):
                    if record.offset >= offset:
                        return record.offset, record.key or b"", record.value
                offset = header.next_offset
        return None

    def goes_on(self) -> None:
        """The log takes appends, and can be cleaned."""
        del self.sent[self.storage.log.log_end_offset :]
        self.append(8)
        self.flush()
        self.housekeeping = Housekeeping(self.storage.directory)
        self.housekeep()
        self.clean()
        self.check()


def changes_in_all() -> Counter[str]:
    story = Story()
    story.prepare()
    story.storage.disk.operations.clear()
    story.tell()
    return Counter(operation.name for operation in story.storage.disk.changes())


CHANGES = changes_in_all()


def test_given_a_log_when_cleaned_then_the_last_values_are_left_at_their_offsets():
    story = Story()
    story.prepare()

    story.tell()

    story.check()
    log = story.storage.log
    cleaned = [each for each in story.records() if each[0] < log.active.base_offset]
    assert len(cleaned) == len({key for _, key, _ in cleaned}) < len(story.sent) // 2
    offsets = offset_checkpoint_decode(story.storage.disk.read_file(ROOT / CLEANER_CHECKPOINT))
    assert offsets == {PARTITION: log.active.base_offset}


@pytest.mark.parametrize(
    ("ending", "first"),
    [("power cut", 0), ("power cut", 1), ("power cut", 2), ("power cut, all lost", 1), ("kill", 0)],
)
def test_given_a_crash_before_each_change_when_started_then_the_last_values_are_there(
    ending, first
):
    """B13: every phase boundary of the replacement is among them."""
    for changes in range(first, CHANGES.total(), 3):
        story = Story()
        story.prepare()
        story.storage.disk.crash_after(changes)
        with pytest.raises(SimulatedCrash):
            story.tell()

        if ending == "kill":
            story.storage.kill()
        else:
            story.storage.crash(None if ending == "power cut, all lost" else Random(changes))

        story.check()
        if not changes % 10:
            story.goes_on()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("operation", ["write", "sync", "sync_directory", "rename", "unlink"])
def test_given_each_call_failing_once_when_started_again_then_the_last_values_are_there(
    operation, number
):
    error = OSError(number, os.strerror(number))
    for after in range(number % 2, CHANGES[operation], 3):
        story = Story()
        story.prepare()
        story.storage.disk.fail(operation, error, after=after)
        try:
            story.tell()
        except (OSError, TidelogError):
            pass
        except AssertionError:
            assert operation == "write", "only a refused append may leave the story's path"
            continue

        story.storage.crash(Random(after))

        story.check()


def started(policy=CleanupPolicy.COMPACT) -> Story:
    """A story with 30 records, committed and checkpointed, and nothing cleaned."""
    story = Story(3, msgspec.structs.replace(CONFIG, cleanup_policy=policy))
    story.append(30)
    story.flush()
    story.housekeep()
    return story


def job_of(story: Story):
    log = story.storage.log
    now_ms = story.storage.clock.now_ms()
    plan = plan_log(log, recovery_point=log.recovery_point, now_ms=now_ms)
    job = cleaning_job(log, plan, now_ms=now_ms, dedupe_buffer_bytes=1 << 16)
    return msgspec.structs.replace(job, segment_bytes=700)  # several become one


def test_given_a_reader_under_way_when_segments_are_replaced_then_it_reads_on():
    """R39: twice replaced within the delay, and its bytes are still those it was promised."""
    story = started()
    log = story.storage.log
    before = [(piece, piece.read()) for piece in log.read(0, 1 << 20).slices]

    story.clean()
    story.clean(again=True)
    story.storage.directory.context.handles.close_all()

    assert [piece.read() for piece, _ in before] == [content for _, content in before]
    assert len([name for name in story.storage.names() if name.endswith(".deleted")]) > 6
    for _ in range(5):  # some of them each time
        story.housekeep(2_000)
    assert not [name for name in story.storage.names() if name.endswith(".deleted")]
    story.check()


def segments_of_groups(story: Story) -> list[tuple[int, ...]]:
    result = clean_log(job_of(story), story.storage.disk, story.storage.clock)
    return [group.old_base_offsets for group in result.groups]


@pytest.mark.parametrize("ending", ["go on", "kill", "power cut"])
@pytest.mark.parametrize("segments_gone", range(1, 9))
def test_given_retention_meanwhile_when_a_pass_ends_then_what_it_took_is_gone_and_the_rest_clean(
    segments_gone, ending
):
    """A group that is gone is left out; one of which a part is gone, too, and is not clean yet."""
    story = started(CleanupPolicy.COMPACT_DELETE)
    log, clock = story.storage.log, story.storage.clock
    groups = clean_log(job_of(story), story.storage.disk, clock).groups
    start = log.segments.base_offsets[segments_gone]
    cuts_a_group = all(start != group.old_base_offsets[0] for group in groups)
    assert start <= groups[-1].old_base_offsets[-1]

    log.advance_log_start(start)
    assert log.delete_old_segments(clock.now_ms()) == segments_gone
    assert all(run_to_end(log.cleaning.replace(group)) for group in groups)
    is_incomplete = log.cleaning.is_incomplete
    story.storage.directory.checkpoint()
    if ending == "kill":
        story.storage.kill()
    elif ending == "power cut":
        story.storage.crash(Random(segments_gone))

    log = story.storage.log
    assert is_incomplete is cuts_a_group
    assert log.log_start_offset == start
    assert {key: value for _, key, value in story.records()} == dict(story.sent[start:])
    assert not [name for name in story.storage.names() if name.endswith((".cleaned", ".swap"))]
    story.storage.check_invariants()
    if ending == "go on":
        story.clean()
        keys = [key for offset, key, _ in story.records() if offset < log.active.base_offset]
        assert len(keys) == len(set(keys))


def test_given_segments_of_several_groups_when_grouped_then_the_test_above_cuts_some_of_them():
    groups = segments_of_groups(started())

    assert len(groups) > 2
    assert all(len(group) > 1 for group in groups[:3])


@pytest.mark.parametrize("steps_done", range(12))
def test_given_a_cut_in_the_middle_of_a_replacement_then_it_is_finished_first(steps_done):
    story = started()
    log, disk = story.storage.log, story.storage.disk
    group = clean_log(job_of(story), disk, story.storage.clock).groups[0]
    steps = log.cleaning.replace(group)
    for _ in range(steps_done):
        next(steps, None)

    kept = sorted({key: offset for offset, (key, _) in enumerate(story.sent[:28])}.values())

    log.truncate_to(kept[1] + 1)

    run_to_end(steps)
    assert log.log_end_offset == kept[1] + 1
    story.is_cut = True
    del story.sent[log.log_end_offset :]
    story.acknowledged = log.log_end_offset
    story.check()
    story.storage.crash()
    story.check()
    story.goes_on()


def test_given_a_cut_before_a_group_is_put_in_place_then_it_is_given_up():
    story = started()
    log = story.storage.log
    log.cleaning.cleaned_offset = 30
    groups = clean_log(job_of(story), story.storage.disk, story.storage.clock).groups

    log.truncate_to(9)

    assert not any(run_to_end(log.cleaning.replace(group)) for group in groups)
    assert log.cleaning.cleaned_offset == 9


def test_given_a_deleted_log_when_a_replacement_goes_on_then_it_does_nothing():
    story = started()
    log = story.storage.log
    group = clean_log(job_of(story), story.storage.disk, story.storage.clock).groups[0]
    steps = log.cleaning.replace(group)
    next(steps)

    story.storage.directory.delete_log(PARTITION)

    assert run_to_end(steps) is False


@pytest.mark.parametrize("refused", [".log.1.deleted", ".log.2.deleted", "0.log", "0.index"])
def test_given_a_refused_rename_when_tried_again_then_the_replacement_is_finished(refused):
    story = started()
    log, disk = story.storage.log, story.storage.disk
    group = clean_log(job_of(story), disk, story.storage.clock).groups[0]
    disk.fail("rename", OSError(errno.EIO, "no"), path_suffix=refused)

    with pytest.raises(StorageError):
        run_to_end(log.cleaning.replace(group))
    assert log.cleaning.is_replacing
    assert log.delete_old_segments(story.storage.clock.now_ms()) == 0
    story.check()
    log.cleaning.finish()

    assert not log.cleaning.is_replacing
    story.check()
    assert not [name for name in story.storage.names() if "swap" in name]


def test_given_records_above_the_checkpointed_recovery_point_when_planned_then_they_are_left():
    """Recovery takes offsets missing above it for a torn tail, and would cut behind them."""
    story = started()
    log = story.storage.log

    plan = plan_log(log, recovery_point=7, now_ms=0)

    assert plan.first_uncleanable_offset <= 7


def test_given_an_open_transaction_when_planned_then_its_segment_and_those_behind_are_left():
    story = Story(3)
    story.append(10)
    send_in_transaction(story.storage.log, 7, 0)
    log, first = story.storage.log, story.storage.log.log_end_offset - 1
    story.sent.append((b"k", b"7:0:0"))
    story.append(10)
    story.flush()

    plan = plan_log(log, recovery_point=log.log_end_offset, now_ms=0)

    segment = log.segments.floor(first)
    assert segment is not None
    assert plan.first_uncleanable_offset == segment.base_offset < log.active.base_offset
