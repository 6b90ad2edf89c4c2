"""Damage in a log: any number of wounds, read around, reported once, never cut."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from broker.storage.damage import Damage
from protocol.errors import CorruptMessageError
from protocol.stored.file_names import log_file_name
from tests.support.log_storage import records_of
from tests.support.wounded_logs import ONE, filled, quarantined, readable, refused, wound, write


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
