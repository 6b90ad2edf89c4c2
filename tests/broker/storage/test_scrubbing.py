"""Looking at segments for damage (R40): what is found, what is left alone, and at which rate."""

from __future__ import annotations

import os

import pytest

from broker.clock import ManualClock
from broker.storage.damage import Damage
from broker.storage.log_config import LogConfig
from broker.storage.os_disk import OsDisk
from broker.storage.scrubbing import (
    PoliteDisk,
    ScrubPlan,
    ScrubStoppedError,
    Throttle,
    scrub_segment,
)
from protocol.errors import StorageError
from tests.support.log_storage import LogStorage
from tests.support.unclean_directory import write_log

BATCH_BYTES = 70
CONFIG = LogConfig(segment_bytes=7_000, index_interval_bytes=500, segment_index_bytes=4_096)
"""A hundred batches to a segment, each of one record."""
FIRST = "00000000000000000000"


class Scrubbed:
    """Two segments on a fake disk; the first is sealed."""

    def __init__(self, config=CONFIG):
        self.storage = LogStorage(config)
        for number in range(150):
            self.storage.append(b"%d" % (number % 10))
            self.storage.clock.advance(ms=1)
        self.storage.flush()

    def plan(self, **changes):
        plan = ScrubPlan(
            directory=self.storage.path,
            base_offset=0,
            size_bytes=7_000,
            end_offset=self.storage.log.durable_offset,
            limit_offset=100,
            wounds=(),
        )
        return plan._replace(**changes)

    def active_plan(self, **changes):
        return self.plan(base_offset=100, size_bytes=3_500, limit_offset=None)._replace(**changes)

    def scrub(self, plan=None):
        return scrub_segment(plan or self.plan(), self.storage.disk, unlimited())

    def overwrite(self, name, position, data):
        file = self.storage.disk.open(self.storage.path / name)
        file.write([data], position)
        file.close()

    def truncate(self, name, size):
        file = self.storage.disk.open(self.storage.path / name)
        file.truncate(size)
        file.close()


def unlimited():
    return Throttle(1 << 60, lambda: False)


def test_given_a_sound_segment_when_looked_at_then_nothing_is_found():
    scrubbed = Scrubbed()

    for plan in (scrubbed.plan(), scrubbed.active_plan()):
        result = scrubbed.scrub(plan)
        assert (result.findings, result.index_fault) == ((), "")


def test_given_a_flipped_bit_when_looked_at_then_exactly_that_batch_is_found():
    scrubbed = Scrubbed()
    scrubbed.overwrite(f"{FIRST}.log", 30 * BATCH_BYTES + 65, b"\xff")

    (found,) = scrubbed.scrub().findings

    assert (found.position, found.end_position) == (30 * BATCH_BYTES, 31 * BATCH_BYTES)
    assert (found.first_offset, found.next_offset) == (30, 31)
    assert "crc" in found.fault


def test_given_several_wounds_when_looked_at_then_all_are_found():
    scrubbed = Scrubbed()
    for number in (10, 30, 31, 99):
        scrubbed.overwrite(f"{FIRST}.log", number * BATCH_BYTES + 65, b"\xff")

    findings = scrubbed.scrub().findings

    assert [(each.first_offset, each.next_offset) for each in findings] == [
        (10, 11), (30, 32), (99, 100),
    ]  # fmt: skip


def test_given_a_wrong_offset_when_looked_at_then_it_is_found_though_no_crc_covers_it():
    scrubbed = Scrubbed()
    scrubbed.overwrite(f"{FIRST}.log", 30 * BATCH_BYTES + 7, b"\x1d")  # 29, for the second time

    (found,) = scrubbed.scrub().findings

    assert (found.first_offset, found.next_offset) == (30, 31)


def test_given_a_file_that_lost_its_end_when_looked_at_then_what_is_missing_is_found():
    """Position and size have to be inside the file."""
    scrubbed = Scrubbed()
    scrubbed.truncate(f"{FIRST}.log", 90 * BATCH_BYTES)

    (found,) = scrubbed.scrub().findings

    assert (found.position, found.first_offset, found.next_offset) == (90 * BATCH_BYTES, 90, 100)


def test_given_a_known_wound_when_looked_at_then_it_is_passed_over_and_others_are_found():
    scrubbed = Scrubbed()
    for number in (10, 30):
        scrubbed.overwrite(f"{FIRST}.log", number * BATCH_BYTES + 65, b"\xff")
    known = Damage(0, 10 * BATCH_BYTES, 11 * BATCH_BYTES, 10, 11, "known")

    (found,) = scrubbed.scrub(scrubbed.plan(wounds=(known,))).findings

    assert found.first_offset == 30


def test_given_bytes_that_are_not_durable_when_looked_at_then_they_are_not_judged():
    scrubbed = Scrubbed()
    scrubbed.overwrite(f"{FIRST[:-3]}100.log", 20 * BATCH_BYTES + 65, b"\xff")

    assert scrubbed.scrub(scrubbed.active_plan(end_offset=120)).findings == ()
    assert len(scrubbed.scrub(scrubbed.active_plan(end_offset=121)).findings) == 1


def test_given_a_second_look_when_what_was_found_is_there_then_it_is_found_again():
    scrubbed = Scrubbed()
    scrubbed.overwrite(f"{FIRST}.log", 30 * BATCH_BYTES + 65, b"\xff")
    (found,) = scrubbed.scrub().findings
    before = len(scrubbed.storage.disk.operations)

    again = scrubbed.scrub(
        scrubbed.plan(
            start_position=found.position, start_offset=found.first_offset,
            end_offset=found.next_offset, is_second_look=True,
        )
    )  # fmt: skip

    assert again.findings == (found,)
    names = [each.name for each in scrubbed.storage.disk.operations[before:]]
    assert names.index("drop_cached_pages") < names.index("read")


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("position", [3, 7, 11, 24, 30])
def test_given_a_changed_byte_in_an_index_when_looked_at_then_it_is_found(suffix, position):
    scrubbed = Scrubbed()
    path = scrubbed.storage.path / f"{FIRST}.{suffix}"
    old = scrubbed.storage.disk.read_file(path)[position]
    scrubbed.overwrite(path.name, position, bytes([old ^ 0x20]))

    result = scrubbed.scrub()

    assert result.findings == ()
    assert result.index_fault


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_given_an_index_of_another_size_when_looked_at_then_it_is_found(suffix):
    scrubbed = Scrubbed()
    size = scrubbed.storage.disk.file_size(scrubbed.storage.path / f"{FIRST}.{suffix}")

    scrubbed.truncate(f"{FIRST}.{suffix}", size - 1)
    assert "inside an entry" in scrubbed.scrub().index_fault
    scrubbed.truncate(f"{FIRST}.{suffix}", size + 120)  # zeros: entries that were never written
    assert scrubbed.scrub().index_fault
    scrubbed.storage.disk.unlink(scrubbed.storage.path / f"{FIRST}.{suffix}")
    assert "cannot be read" in scrubbed.scrub().index_fault


def test_given_damage_and_a_wrong_index_when_looked_at_then_the_index_is_not_judged():
    """Entries for what lies behind a wound cannot be compared with what is in it."""
    scrubbed = Scrubbed()
    scrubbed.overwrite(f"{FIRST}.log", 30 * BATCH_BYTES + 65, b"\xff")
    scrubbed.overwrite(f"{FIRST}.index", 3, b"\x55")

    result = scrubbed.scrub()

    assert len(result.findings) == 1
    assert not result.index_fault


def test_given_a_segment_that_is_gone_when_looked_at_then_that_is_an_error():
    scrubbed = Scrubbed()
    scrubbed.storage.disk.unlink(scrubbed.storage.path / f"{FIRST}.log")

    with pytest.raises(StorageError):
        scrubbed.scrub()


# --- rate and page cache --------------------------------------------------------------------------


def test_given_a_rate_when_reading_then_it_is_kept_and_time_that_went_by_is_not_made_up_for():
    clock, slept = ManualClock(0), []

    def sleep(seconds):
        slept.append(seconds)
        clock.advance(ms=round(seconds * 1000))

    throttle = Throttle(1_000, lambda: False, monotonic=clock.monotonic, sleep=sleep)
    throttle.read(100)
    throttle.read(100)
    assert sum(slept) == pytest.approx(0.2)
    clock.advance(ms=100_000)
    throttle.read(500)

    assert sum(slept) == pytest.approx(0.7)
    assert throttle.total == 700


def test_given_a_wish_to_stop_when_waiting_then_the_look_ends():
    answers = iter([False, False, True])
    throttle = Throttle(1, lambda: next(answers), monotonic=lambda: 0.0, sleep=lambda seconds: None)

    with pytest.raises(ScrubStoppedError):
        throttle.read(1_000_000)


def test_given_pages_in_memory_when_looked_at_then_they_stay_and_no_others_do(tmp_path):
    write_log(tmp_path, "tide-0", 4_000_000, value_bytes=1_000)
    path = tmp_path / "tide-0" / f"{FIRST}.log"
    file = OsDisk().open(path)
    size = file.size() - file.size() % 4096
    file.sync()
    file.drop_cached_pages(0, 0)
    file.expect_random_reads()
    if not file.uncached_ranges(0, size):
        pytest.skip("this file system keeps every page in memory")
    file.read(500_000, 1_000_000)  # the hot set
    before = file.uncached_ranges(0, size)
    throttle = unlimited()
    plan = ScrubPlan(path.parent, 0, path.stat().st_size, 1 << 40, None, ())

    result = scrub_segment(plan, PoliteDisk(throttle), throttle)

    assert result.findings == ()
    assert result.bytes_read >= path.stat().st_size
    assert file.uncached_ranges(0, size) == before
    file.close()


def test_given_a_look_when_it_opens_files_then_it_cannot_write_them(tmp_path):
    write_log(tmp_path, "tide-0", 1_000)
    file = PoliteDisk(unlimited()).open(tmp_path / "tide-0" / f"{FIRST}.log")

    with pytest.raises(OSError, match=os.strerror(9)):
        file.write([b"x"], 0)
    file.close()
