"""A crash at every change of the disk, one after the other: before the 1st, the 2nd, ... the last.

One fixed story of appends, rolls, flushes, checkpoints, retention, a cut, a stop and a new start.
The oracle is the same each time: what was acknowledged is there, at its offset, byte-equal; what is
there beyond it is a prefix of what was sent; the log goes on. Then the same for each call that
fails once. (Compaction, quarantine and long stories: a later issue.)
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from random import Random

import msgspec
import pytest

from broker.storage.housekeeping import Housekeeping
from protocol.errors import StorageError
from tests.support.fake_disk import SimulatedCrash
from tests.support.log_storage import SMALL_SEGMENTS, LogStorage

CONFIG = msgspec.structs.replace(SMALL_SEGMENTS, retention_ms=10_000, file_delete_delay_ms=100)


class Story:
    """What is done, and what was promised so far."""

    def __init__(self, seed: int) -> None:
        self.storage = LogStorage(CONFIG, seed=seed)
        self.housekeeping = Housekeeping(self.storage.directory)
        self.sent: list[bytes] = []
        self.acknowledged = 0
        self.log_start_max = 0
        self.cut_to: int | None = None

    def tell(self) -> None:
        """Do it all; a crash comes as SimulatedCrash, a disk's error as StorageError or OSError."""
        self.append(3)
        self.flush()
        self.append(6)  # rolls
        self.housekeep(1_000)
        self.flush()
        self.append(2)
        self.cut(10)
        self.append(2)
        self.flush()
        self.housekeep(11_000)
        self.append(3)
        self.flush()
        self.housekeep(290_000)  # retention
        self.housekeep(1_000)  # unlinks
        self.append(5)
        self.storage.directory.close()
        self.acknowledged = len(self.sent)
        self.storage.open()
        self.housekeeping = Housekeeping(self.storage.directory)
        self.append(5)
        self.flush()

    def append(self, count: int) -> None:
        for _ in range(count):
            value = b"%d" % len(self.sent)
            self.sent.append(value)
            assert self.storage.append(value) == len(self.sent) - 1

    def flush(self) -> None:
        self.storage.flush()
        self.acknowledged = self.storage.log.high_watermark
        assert self.acknowledged == len(self.sent)

    def cut(self, offset: int) -> None:
        self.cut_to = offset
        self.acknowledged = min(self.acknowledged, offset)
        self.storage.log.truncate_to(offset)
        del self.sent[offset:]

    def housekeep(self, ms: int) -> None:
        self.log_start_max = len(self.sent)  # what retention may take from now on
        self.storage.clock.advance(ms=ms)
        self.housekeeping.run_due(self.storage.clock.monotonic())

    def check(self) -> None:
        """Hold what a start has found against what was promised."""
        log = self.storage.log
        found = self.storage.records()
        start = log.log_start_offset
        assert start <= self.log_start_max
        assert not log.damage
        assert found == [(offset, b"%d" % offset) for offset in range(start, start + len(found))]
        assert self.acknowledged <= log.log_end_offset == start + len(found) <= len(self.sent)
        self.storage.check_invariants()
        end = log.log_end_offset
        assert self.storage.append(b"next") == end
        self.storage.flush()
        assert self.storage.records()[-1] == (end, b"next")


def changes_in_all() -> Counter[str]:
    """How many changes of each kind the whole story makes."""
    story = Story(0)
    story.storage.disk.operations.clear()
    story.tell()
    return Counter(operation.name for operation in story.storage.disk.changes())


CHANGES = changes_in_all()


def test_given_no_crash_when_told_to_the_end_then_everything_is_there():
    story = Story(0)

    story.tell()

    assert story.acknowledged == len(story.sent) == 25
    story.check()


@pytest.mark.parametrize("ending", ["power cut, all lost", "power cut", "kill"])
def test_given_a_crash_before_each_change_when_started_then_the_promises_hold(ending):
    for changes in range(CHANGES.total()):
        story = Story(changes)
        story.storage.disk.crash_after(changes)
        with pytest.raises(SimulatedCrash):
            story.tell()

        if ending == "kill":
            story.storage.kill()
        else:
            story.storage.crash(None if ending == "power cut, all lost" else Random(changes))

        story.check()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("operation", ["write", "sync", "sync_directory", "rename", "truncate"])
def test_given_each_call_failing_once_when_started_again_then_the_promises_hold(operation, number):
    error = OSError(number, os.strerror(number))
    for after in range(CHANGES[operation]):
        story = Story(after)
        story.storage.disk.fail(operation, error, after=after)
        try:
            story.tell()
        except (OSError, StorageError):
            pass  # the broker ends here; one that goes on is judged below as well
        except AssertionError:
            assert operation == "write", "only a refused append may leave the story's path"

        story.storage.crash(Random(after))

        story.check()
