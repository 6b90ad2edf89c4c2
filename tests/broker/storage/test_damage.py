"""Damage in a log: any number of wounds, read around, reported once, never cut; torn tails are."""

from __future__ import annotations

import errno
import json
import pickle

import pytest
from structlog.testing import capture_logs

from broker.storage.damage import Damage, DamageFoundError, LogDamage
from broker.storage.log_config import CleanupPolicy
from broker.storage.log_reader import ReadLimit
from broker.storage.quarantine import REPORT_SUFFIX
from protocol.errors import CorruptMessageError
from protocol.stored.file_names import CLEAN_SHUTDOWN_MARKER, QUARANTINE_SUFFIX, log_file_name
from tests.support.fake_disk import SimulatedCrash
from tests.support.log_storage import ROOT, SMALL_SEGMENTS, LogStorage, batch, records_of

ONE = len(batch(b"0"))
LARGE_SEGMENTS = SMALL_SEGMENTS.__class__(
    segment_bytes=100_000, index_interval_bytes=100, segment_index_bytes=2_400
)


def filled(count: int = 12, *, large: bool = False) -> LogStorage:
    """The value of a record is its offset; segments from 0, 4, 8 on, or one."""
    storage = LogStorage(LARGE_SEGMENTS if large else SMALL_SEGMENTS)
    for number in range(count):
        storage.clock.advance(ms=1000)
        storage.append(b"%d" % number)
    storage.flush()
    storage.directory.durable_offsets.write_and_sync()
    return storage


def write(storage: LogStorage, base_offset: int, data: bytes, position: int) -> None:
    file = storage.disk.open(storage.path / log_file_name(base_offset))
    file.write([data], position)
    file.sync()


def wound(storage: LogStorage, base_offset: int, *batches: int) -> None:
    """Change a byte of a record in some batches of a segment."""
    for number in batches:
        write(storage, base_offset, b"\xff", number * ONE + 65)


def readable(storage: LogStorage) -> list[int]:
    """Every offset that is served, going on behind each wound where the answer says."""
    log, offset, found = storage.log, storage.log.log_start_offset, []
    while offset < log.high_watermark:
        try:
            records = [each for each, _ in records_of(log.read(offset, 1 << 20)) if each >= offset]
        except CorruptMessageError as error:
            offset = int(str(error).rsplit(" ", 1)[1])
            continue
        assert records, f"a reader hangs at {offset}"
        found += records
        offset = records[-1] + 1
    return found


def refused(storage: LogStorage) -> list[int]:
    found = []
    for offset in range(storage.log.high_watermark):
        try:
            assert records_of(storage.log.read(offset, 1))[0][0] == offset
        except CorruptMessageError:
            found.append(offset)
    return found


def quarantined(storage: LogStorage) -> list[str]:
    return [name for name in storage.names() if name.endswith((QUARANTINE_SUFFIX, REPORT_SUFFIX))]


def reports(storage: LogStorage) -> list[dict[str, object]]:
    return [
        json.loads(storage.disk.read_file(storage.path / name))
        for name in storage.names()
        if name.endswith(REPORT_SUFFIX)
    ]


@pytest.mark.parametrize("large", [False, True], ids=["sealed", "active"])
@pytest.mark.parametrize("batches", [(0,), (1,), (3,), (0, 2), (1, 2), (0, 1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("start", ["kill", "crash", "restart"])
def test_given_wounds_anywhere_in_a_segment_when_started_then_all_else_is_served(
    batches: tuple[int, ...], large: bool, start: str
):
    """R23, R32: after an unclean start all are known; after a clean one each is met by a read."""
    storage = filled(large=large)
    if start == "restart":
        storage.directory.close()
    wound(storage, 0 if large else 4, *batches)
    lost = [each if large else each + 4 for each in batches]
    if start != "restart":
        getattr(storage.disk, start)()
    storage.open()

    assert readable(storage) == [each for each in range(12) if each not in lost]
    assert refused(storage) == lost
    held = [each for each in range(12) if any(one.holds(each) for one in storage.log.damage)]
    assert held == lost
    assert storage.append(b"on") == 12
    storage.flush()
    assert readable(storage)[-1] == 12


def test_given_wounds_when_started_again_and_again_then_quarantine_does_not_pile_up():
    storage = filled()
    wound(storage, 4, 1, 3)
    storage.kill()
    first, damage = quarantined(storage), list(storage.log.damage)

    for start in (storage.kill, storage.crash, storage.restart, storage.restart):
        start()

        assert quarantined(storage) == first
        assert list(storage.log.damage) == damage
    assert len(first) == 4


# --- wounds that are remembered -------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["records", "segment's end"])
def test_given_known_wounds_when_started_again_then_no_start_walks_to_find_them(lost: str):
    """A report that is durable tells of them; bytes that are what they were are not read again."""
    storage = filled(20)
    if lost == "records":
        wound(storage, 4, 1, 3)
    else:
        storage.disk.open(storage.path / log_file_name(4)).truncate(2 * ONE)
    storage.kill()
    damage, served = list(storage.log.damage), readable(storage)
    assert len(damage) == (2 if lost == "records" else 1)
    assert storage.log.recovery_point == 20
    storage.append(b"on")
    storage.flush()

    for start in (storage.restart, storage.kill, storage.restart, storage.crash):
        start()

        assert storage.directory.summary.checked_bytes <= 4 * ONE, "more than the active segment"
        assert list(storage.log.damage) == damage
        assert readable(storage) == [*served, 20]
        assert storage.log.recovery_point == 21
    storage.restart()
    assert storage.directory.summary.checked_bytes == 0


def test_given_a_wound_found_while_running_when_started_again_then_one_walk_makes_it_known():
    """Its report was not waited for: the recovery point stays below until a start has done so."""
    storage = filled()
    storage.restart()
    wound(storage, 4, 1)
    assert refused(storage) == [5]
    assert storage.log.recovery_point == 4

    storage.restart()

    assert storage.directory.summary.checked_bytes >= 8 * ONE
    assert storage.log.recovery_point == 12
    assert all(storage.disk.is_durable(storage.path / name) for name in quarantined(storage))
    storage.restart()
    assert storage.directory.summary.checked_bytes == 0
    assert [each.first_offset for each in storage.log.damage] == [5]


def test_given_a_report_that_is_gone_when_started_then_the_wound_is_met_by_a_read():
    storage = filled()
    wound(storage, 4, 1)
    storage.kill()
    storage.directory.close()
    for name in quarantined(storage):
        storage.disk.unlink(storage.path / name)

    storage.open()

    assert not storage.log.damage
    assert refused(storage) == [5]
    assert [each.first_offset for each in storage.log.damage] == [5]


def test_given_a_wound_that_was_repaired_when_started_then_its_old_report_says_nothing():
    storage = filled()
    wound(storage, 4, 1)
    storage.kill()
    storage.directory.close()
    write(storage, 4, batch_bytes(storage, 5), ONE)

    storage.open()

    assert not storage.log.damage
    assert readable(storage) == list(range(12))


def batch_bytes(storage: LogStorage, number: int) -> bytes:
    """The batch of that record as `filled` has written it, by another log of the same kind."""
    twin = filled()
    base_offset = number - number % 4
    position = (number - base_offset) * ONE
    data = twin.disk.read_file(twin.path / log_file_name(base_offset))
    return data[position : position + ONE]


def test_given_a_disk_that_takes_no_report_when_started_then_the_recovery_point_stays_below():
    storage = filled()
    wound(storage, 4, 1)
    storage.disk.kill()
    storage.disk.fail("rename", OSError(errno.EIO, "bad"), path_suffix=REPORT_SUFFIX)

    storage.open()

    assert [each.first_offset for each in storage.log.damage] == [5]
    assert storage.log.recovery_point == 4
    storage.restart()
    assert storage.log.recovery_point == 12


@pytest.mark.parametrize("wrong", [b"", b"{}", b"garbage", b'{"version": 1}'])
def test_given_a_report_that_says_nothing_when_started_then_it_is_ignored(wrong: bytes):
    storage = filled()
    wound(storage, 4, 1)
    storage.kill()
    storage.directory.close()
    (name,) = [each for each in storage.names() if each.endswith(REPORT_SUFFIX)]
    file = storage.disk.open(storage.path / name)
    file.truncate(0)
    file.write([wrong], 0)

    storage.open()

    assert refused(storage) == [5]


def test_given_a_wound_when_quarantined_then_copy_and_report_tell_all():
    storage = filled()
    wound(storage, 4, 1)
    before = storage.disk.read_file(storage.path / log_file_name(4))

    storage.kill()

    (report,) = reports(storage)
    (copy,) = [name for name in storage.names() if name.endswith(QUARANTINE_SUFFIX)]
    assert storage.disk.read_file(storage.path / copy) == before[ONE : 2 * ONE]
    assert storage.disk.read_file(storage.path / log_file_name(4)) == before
    assert (report["file"], report["position"], report["end_position"]) == (
        log_file_name(4), ONE, 2 * ONE,
    )  # fmt: skip
    assert (report["first_offset"], report["next_offset"]) == (5, 6)
    assert (report["cause"], report["copied_bytes"]) == ("damage", ONE)
    assert "crc" in str(report["fault"])


def test_given_a_doubled_page_when_started_then_each_record_is_served_once():
    """What follows the second copy is found: nothing is missing, and nothing is served twice."""
    storage = filled(8, large=True)
    data = storage.disk.read_file(storage.path / log_file_name(0))
    write(storage, 0, data[2 * ONE : 4 * ONE] + data[4 * ONE :], 4 * ONE)  # 2 and 3 twice

    storage.kill()

    assert readable(storage) == list(range(8))
    (found,) = storage.log.damage
    assert (found.first_offset, found.next_offset, found.size_bytes) == (4, 4, 2 * ONE)
    storage.restart()
    assert readable(storage) == list(range(8))


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("delta", [1, 3, 1024, -1, -3])
@pytest.mark.parametrize("clean", [False, True])
def test_given_a_wrong_base_offset_when_started_then_no_record_is_served_under_it(
    number: int, delta: int, clean: bool
):
    """No CRC covers it: it must fit the batches around it, and the end that was promised."""
    storage = filled(8, large=True)
    if clean:
        storage.directory.close()
    write(storage, 0, (number + delta).to_bytes(8, "big", signed=True), number * ONE)
    storage.disk.kill()
    storage.open()

    served = readable(storage)

    values = {
        offset: value for at in served for offset, value in records_of(storage.log.read(at, 1))
    }
    assert all(value == b"%d" % offset for offset, value in values.items())
    assert set(served) >= set(range(8)) - {number, number + delta, number - 1, number + 1}
    assert storage.log.log_end_offset == 8


def test_given_a_wounded_first_batch_when_appending_then_the_segment_still_rolls_by_time():
    """R26: a first batch that went bad after a clean stop does not fail an append."""
    storage = filled(3, large=True)
    storage.directory.close()
    write(storage, 0, b"\x07", 16)  # its magic
    storage.open()

    assert storage.append(b"3") == 3
    storage.clock.advance(ms=storage.config.segment_ms + 10_000)
    assert storage.append(b"4") == 4

    assert storage.log.segments.base_offsets == (0, 4)


def test_given_a_wounded_first_batch_when_retention_is_due_then_the_segment_goes():
    """R38: and what was known of its wounds goes with it."""
    storage = filled()
    wound(storage, 0, 0)
    storage.kill()
    storage.clock.advance(ms=storage.config.retention_ms + 100_000)

    deleted = storage.log.delete_old_segments(storage.clock.now_ms())

    assert deleted >= 1
    assert not storage.log.damage
    assert storage.log.recovery_point == storage.log.log_end_offset


# --- torn tails -----------------------------------------------------------------------------------


def torn() -> LogStorage:
    """Flushed up to 6, in the second of three segments; the batch 6 is bad, 7 to 9 are whole."""
    storage = LogStorage(SMALL_SEGMENTS)
    for number in range(6):
        storage.append(b"%d" % number)
    storage.flush()
    for number in range(6, 10):
        storage.append(b"%d" % number)
    wound(storage, 4, 2)
    return storage


def test_given_valid_batches_behind_a_torn_tail_when_cut_then_they_are_in_quarantine_first():
    """Never acknowledged, so they go; but perhaps they are all that somebody has."""
    storage = torn()
    data = [storage.disk.read_file(storage.path / log_file_name(base)) for base in (4, 8)]

    log = storage.kill()

    assert log.log_end_offset == 6
    assert not log.damage
    assert readable(storage) == list(range(6))
    found = {report["cause"]: report for report in reports(storage)}
    assert set(found) == {"torn tail", "behind a torn tail"}
    copies = {
        storage.disk.read_file(storage.path / name)
        for name in storage.names()
        if name.endswith(QUARANTINE_SUFFIX)
    }
    assert copies == {data[0][2 * ONE :], data[1]}
    assert storage.directory.summary.cut_bytes == 4 * ONE


def test_given_a_torn_tail_with_nothing_behind_it_when_cut_then_quarantine_is_empty():
    storage = filled(5)
    storage.append(b"5")
    write(storage, 4, b"\xff", ONE + 65)

    storage.kill()

    assert quarantined(storage) == []
    assert storage.log.log_end_offset == 5


def changes_of_a_torn_start() -> int:
    storage = torn()
    storage.disk.kill()
    before = len(storage.disk.changes())
    storage.open()
    return len(storage.disk.changes()) - before


@pytest.mark.parametrize("power_cut", [False, True])
@pytest.mark.parametrize("changes", range(changes_of_a_torn_start()))
def test_given_a_crash_while_a_torn_tail_is_cut_when_started_again_then_the_same_comes_out(
    changes: int, power_cut: bool
):
    """R31: the copies are durable before the first byte is cut."""
    storage = torn()
    for base_offset in (4, 8):
        storage.disk.open(storage.path / log_file_name(base_offset)).sync()
    storage.disk.sync_directory(storage.path)
    storage.disk.kill()
    storage.disk.crash_after(changes)
    with pytest.raises(SimulatedCrash):
        storage.open()
    (storage.disk.crash if power_cut else storage.disk.kill)()

    storage.open()

    assert readable(storage) == list(range(6))
    assert storage.log.log_end_offset == 6
    found = [report["cause"] for report in reports(storage)]
    assert "torn tail" in found
    assert len(found) <= 2


# --- while the log is open ------------------------------------------------------------------------


def test_given_a_wound_found_by_the_scrubber_when_added_then_reads_know_and_it_is_said_once():
    storage = filled()
    found = Damage(4, ONE, 2 * ONE, 5, 6, "the crc does not match")

    with capture_logs() as events:
        first, second = storage.log.add_damage(found), storage.log.add_damage(found)

    assert (first, second) == (True, False)
    assert [each["log_level"] for each in events] == ["error"]
    assert refused(storage) == [5]
    assert readable(storage) == [each for each in range(12) if each != 5]
    assert storage.log.recovery_point == 4
    assert len(quarantined(storage)) == 2
    assert storage.directory.context.is_checkpoint_due


def test_given_a_wound_of_a_deleted_segment_when_added_then_nobody_minds():
    storage = filled()

    assert not storage.log.add_damage(Damage(5, 0, 10, 5, 6, "late"))
    assert not storage.log.damage


def test_given_a_full_disk_when_a_wound_is_found_then_it_is_known_all_the_same():
    storage = filled()
    storage.disk.space_bytes = 0

    assert storage.log.add_damage(Damage(4, ONE, 2 * ONE, 5, 6, "bad"))

    assert refused(storage) == [5]


def test_given_a_read_that_meets_bad_bytes_when_answered_then_the_sound_part_comes_first():
    """After a clean stop: what was not checked since the start is checked before it is sent."""
    storage = filled(large=True)
    storage.directory.close()
    wound(storage, 0, 5)
    storage.open()

    data = storage.log.read(0, 1 << 20)

    assert [offset for offset, _ in records_of(data)] == [0, 1, 2, 3, 4]
    with pytest.raises(CorruptMessageError, match="next good offset is 6"):
        storage.log.read(5, 1 << 20)
    assert records_of(storage.log.read(6, 1 << 20))[0][0] == 6


def test_given_bytes_that_were_checked_when_read_again_then_no_crc_is_computed_twice():
    storage = filled(large=True)
    storage.restart()
    storage.log.read(0, 1 << 20)
    before = len(storage.disk.operations)

    storage.log.read(0, 1 << 20)

    reads = [each for each in storage.disk.operations[before:] if each.name == "read"]
    assert len(reads) <= 1  # of the look-up
    assert storage.log.active.check.unchecked is None


def test_given_an_unclean_start_when_files_are_read_then_their_cached_pages_went_before():
    """What a failed sync has left in the page cache must not pass for what is on the disk."""
    storage = filled()
    storage.disk.kill()
    start = len(storage.disk.operations)

    storage.open()

    dropped = set()
    for each in storage.disk.operations[start:]:
        if each.path.suffix != ".log":
            continue
        if each.name == "drop_cached_pages":
            dropped.add(each.path)
        elif each.name == "read":
            assert each.path in dropped, f"{each.path.name} was read before"
    logs = [name for name in storage.names() if name.endswith(".log")]
    assert sorted(path.name for path in dropped) == logs


# --- cuts -----------------------------------------------------------------------------------------


def test_given_a_cut_inside_the_cleaners_gap_when_started_then_no_offset_passes_for_lost():
    """R25: the log ends where it was cut, though no batch ends there."""
    config = LARGE_SEGMENTS.__class__(
        segment_bytes=100_000, index_interval_bytes=100, segment_index_bytes=2_400,
        cleanup_policy=CleanupPolicy.COMPACT,
    )  # fmt: skip
    for flush in (True, False):
        storage = LogStorage(config)
        for number in range(8):
            storage.append(b"%d" % number)
        storage.flush()
        storage.directory.close()
        data = storage.disk.read_file(storage.path / log_file_name(0))
        file = storage.disk.open(storage.path / log_file_name(0))
        file.truncate(0)
        write(storage, 0, data[: 2 * ONE] + data[6 * ONE :], 0)  # 2 to 5 were cleaned away
        storage.disk.unlink(ROOT / CLEAN_SHUTDOWN_MARKER)
        storage.open()

        end = storage.log.truncate_to(4)
        if flush:
            storage.flush()
        storage.crash()

        assert end == 4
        assert not storage.log.damage
        assert storage.log.log_end_offset == 4
        assert [offset for offset, _ in storage.records(limit=ReadLimit.LOG_END)] == [0, 1]
        assert storage.append(b"on") == 4


@pytest.mark.parametrize("offset", [5, 6])
def test_given_a_cut_at_or_below_a_wound_when_cut_then_the_wound_goes_with_it(offset: int):
    storage = filled()
    wound(storage, 4, 1)
    storage.kill()

    end = storage.log.truncate_to(offset)

    assert end == offset
    assert len(storage.log.damage) == offset - 5
    assert storage.append(b"new") == offset
    storage.flush()
    assert readable(storage) == [0, 1, 2, 3, 4, offset]


# --- values ---------------------------------------------------------------------------------------


def test_given_wounds_that_touch_when_added_then_they_become_one():
    damage = LogDamage([Damage(0, 100, 200, 1, 2, "a"), Damage(0, 300, 400, 5, 6, "b")])

    assert damage.add(Damage(0, 150, 350, 1, 5, "c"))
    assert not damage.add(Damage(0, 160, 170, 2, 3, "known"))

    assert [tuple(each)[:5] for each in damage] == [(0, 100, 400, 1, 6)]
    assert (len(damage), damage.first_unkept_segment) == (1, 0)


def test_given_wounds_of_segments_when_forgotten_or_cut_then_the_others_stay():
    one, two, other = (
        Damage(0, 10, 20, 1, 2, "a"), Damage(0, 50, 60, 4, 5, "b"), Damage(9, 0, 5, 9, 10, "c"),
    )  # fmt: skip
    damage = LogDamage([two, other, one])

    damage.cut(0, 50)
    assert list(damage) == [one, other]
    damage.forget(0)
    assert list(damage) == [other]
    assert damage.of_segment(0) == ()


def test_given_an_error_of_damage_when_pickled_then_it_comes_out_as_it_was():
    error = DamageFoundError(Damage(0, 10, 20, 1, 2, "bad"))

    again = pickle.loads(pickle.dumps(error))

    assert again.damage == error.damage
    assert str(again) == str(error)
