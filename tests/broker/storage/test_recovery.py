"""Recovery: what a start makes of a directory that a crash has left (R23, R31, R32)."""

from __future__ import annotations

import errno
import os
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.damage import Damage
from broker.storage.log_reader import ReadLimit
from broker.storage.recovery import Hints, is_damage
from protocol.errors import CorruptMessageError
from protocol.stored.file_names import DURABLE_OFFSETS, log_file_name
from tests.support.fake_disk import SimulatedCrash
from tests.support.log_storage import ROOT, SMALL_SEGMENTS, LogStorage, batch, records_of

ONE = len(batch(b"0"))
SLOTS = ROOT / DURABLE_OFFSETS


def filled(count: int = 9, *, flushed: bool = True) -> LogStorage:
    """Segments from 0, 4 and 8 on; the value of a record is its offset."""
    storage = LogStorage(SMALL_SEGMENTS)
    for number in range(count):
        storage.append(b"%d" % number)
    if flushed:
        storage.flush()
    return storage


def expected(start: int, end: int) -> list[tuple[int, bytes]]:
    return [(offset, b"%d" % offset) for offset in range(start, end)]


def write(storage: LogStorage, name: str, data: bytes, position: int = 0) -> None:
    """Change a file of the partition behind the broker's back, durably."""
    file = storage.disk.open(storage.path / name, create=True)
    file.write([data], position)
    file.sync()
    file.close()
    storage.disk.sync_directory(storage.path)


def flip(storage: LogStorage, name: str, position: int) -> None:
    """Flip one bit."""
    (byte,) = storage.disk.read_file(storage.path / name)[position : position + 1]
    write(storage, name, bytes([byte ^ 1]), position)


def lose_slots(storage: LogStorage) -> None:
    storage.disk.unlink(SLOTS)
    storage.disk.sync_directory(ROOT)


# --- clean and unclean ----------------------------------------------------------------------------


def test_given_a_clean_stop_when_started_then_nothing_is_walked_and_all_is_there():
    """R31: nothing proportional to flushed data is read."""
    storage = filled()
    storage.directory.close()
    storage.disk.operations.clear()

    log = storage.restarted()

    assert storage.directory.summary.is_clean
    assert storage.directory.summary.checked_bytes == 0
    read = {each.path.name for each in storage.disk.operations if each.name == "read"}
    assert log_file_name(0) not in read
    assert (log.log_end_offset, log.high_watermark, log.durable_offset) == (9, 9, 9)
    assert storage.records() == expected(0, 9)
    assert storage.append(b"9") == 9


def test_given_a_kill_when_started_then_nothing_written_is_lost_and_hw_is_the_log_end():
    """A checkpointed high watermark alone would go backwards for readers."""
    storage = filled()
    storage.append(b"9")

    log = storage.kill()

    assert not storage.directory.summary.is_clean
    assert (log.high_watermark, log.durable_offset, log.log_end_offset) == (10, 10, 10)
    assert storage.disk.is_durable(log.active.path)
    assert storage.records() == expected(0, 10)


@given(seed=st.integers(0, 2**32), flushed=st.integers(0, 9), more=st.integers(0, 9))
def test_given_a_power_cut_when_started_then_all_flushed_is_there_and_the_rest_is_a_prefix(
    seed, flushed, more
):
    """R23, R32"""
    storage = filled(flushed)
    for number in range(flushed, flushed + more):
        storage.append(b"%d" % number)

    storage.crash(Random(seed))

    found = storage.records()
    assert found == expected(0, len(found))
    assert flushed <= len(found) <= flushed + more
    storage.check_invariants()
    assert storage.append(b"next") == len(found)


def test_given_a_recovery_point_when_started_then_segments_below_it_are_not_read():
    """R31, pass 6: from the recovery point on."""
    storage = filled()
    storage.directory.checkpoint()
    storage.append(b"9")
    storage.disk.kill()
    storage.disk.operations.clear()

    storage.restarted()

    dropped = [each.path.name for each in storage.disk.operations if each.name[:4] == "drop"]
    assert dropped == [log_file_name(8)]
    assert storage.directory.summary.checked_bytes == 2 * ONE


def test_given_a_lower_durable_offset_when_started_then_it_bounds_the_recovery_point():
    """A cut lowers the slot first; a checkpoint that says more is older."""
    storage = filled()
    storage.directory.checkpoint()
    storage.log.truncate_to(2)
    storage.append(b"2")
    storage.disk.kill()

    log = storage.restarted()

    assert storage.directory.summary.checked_bytes == 3 * ONE
    assert log.log_end_offset == 3


def test_given_lost_page_cache_errors_when_started_then_the_device_is_believed():
    """Cached pages are dropped before the first read: a failed sync has left lies in them."""
    storage = filled(4)
    storage.append(b"4")
    storage.disk.fail("sync", OSError(errno.EIO, os.strerror(errno.EIO)))
    with pytest.raises(OSError, match="Input"):
        storage.log.flush()
    assert len(storage.records(limit=ReadLimit.LOG_END)) == 5  # the cache still shows it

    storage.kill()

    assert storage.records() == expected(0, 4)


def test_given_a_lowered_message_limit_when_recovering_then_larger_batches_stay():
    """R23: bounded by the format and the file, never by today's settings."""
    storage = LogStorage()
    storage.append(b"x" * 5_000)
    storage.flush()

    storage.config = msgspec.structs.replace(
        storage.config, max_message_bytes=100, segment_bytes=200
    )
    storage.kill()

    assert storage.records() == [(0, b"x" * 5_000)]


# --- torn tail ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage", [b"\x00" * 100, b"\xff" * 100, bytes(batch(b"x"))[:-1], b"\x00" * 5]
)
def test_given_bad_bytes_at_the_durable_offset_when_started_then_they_are_cut(garbage):
    """R23: and the bytes cut are counted."""
    storage = filled()
    write(storage, log_file_name(8), garbage, ONE)

    log = storage.kill()

    assert storage.directory.summary.cut_bytes == len(garbage)
    assert storage.disk.file_size(log.active.path) == ONE
    assert storage.records() == expected(0, 9)
    assert not log.damage


def test_given_a_torn_segment_when_others_follow_then_they_are_no_part_of_the_log():
    """R32: nothing at or above the durable offset was acknowledged."""
    storage = filled(3)
    for number in range(3, 9):
        storage.append(b"%d" % number)
    write(storage, log_file_name(0), b"\0" * 10, 3 * ONE + 20)

    log = storage.kill()

    assert storage.records() == expected(0, 3)
    assert log.segments.base_offsets == (0,)
    assert log_file_name(4) not in storage.names()
    assert storage.append(b"3") == 3


def test_given_a_segment_that_ends_early_when_others_follow_then_they_are_cut_too():
    """R32: a lost tail may end at a batch's border; what follows the gap was never promised."""
    storage = filled(3)
    for number in range(3, 9):
        storage.append(b"%d" % number)
    file = storage.disk.open(storage.path / log_file_name(0))
    file.truncate(3 * ONE)

    storage.kill()

    assert storage.records() == expected(0, 3)


@pytest.mark.parametrize("changes", range(30))
def test_given_a_crash_inside_recovery_when_started_again_then_the_same_comes_out(changes):
    """R31: each pass is idempotent."""
    storage = filled(3)
    for number in range(3, 9):
        storage.append(b"%d" % number)
    write(storage, log_file_name(0), b"\0" * 10, 3 * ONE + 20)
    storage.disk.kill()
    storage.disk.crash_after(changes)
    try:
        storage.open()
    except SimulatedCrash:
        pass

    storage.crash(Random(changes))

    assert storage.records() == expected(0, 3)


def test_given_a_first_segment_that_was_never_durable_when_it_is_lost_then_the_others_go_too():
    """R32: what follows it begins in the middle."""
    storage = filled(flushed=False)
    for suffix in ("log", "index", "timeindex"):
        storage.disk.unlink(storage.path / f"{0:020d}.{suffix}")

    log = storage.kill()

    assert log.segments.base_offsets == (0,)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert storage.append(b"0") == 0


# --- damage ---------------------------------------------------------------------------------------


def syncs_of_a_start(storage: LogStorage) -> list[str]:
    """What a start after kill -9 has synced of the partition, by name."""
    storage.disk.kill()
    before = len(storage.disk.operations)
    storage.restarted()
    synced = [each for each in storage.disk.operations[before:] if each.name.startswith("sync")]
    return [each.path.name for each in synced if storage.path in (each.path, each.path.parent)]


def test_given_all_was_synced_and_checkpointed_when_started_then_it_is_not_synced_again():
    """R31: with a thousand idle logs these syncs would be most of an unclean start."""
    storage = filled()
    storage.directory.checkpoint()

    assert syncs_of_a_start(storage) == []
    assert storage.log.durable_offset == 9


def test_given_bytes_above_the_recovery_point_when_started_then_they_are_synced():
    storage = filled()
    storage.directory.checkpoint()
    storage.append(b"9")

    assert storage.path.name in syncs_of_a_start(storage)
    assert storage.disk.is_durable(storage.path / log_file_name(8))


def test_given_a_new_segment_without_a_name_on_disk_when_started_then_its_name_is_synced():
    """All offsets were durable; the file that the next ones go to was not."""
    storage = filled()
    storage.directory.checkpoint()
    storage.log.roll()

    assert storage.path.name in syncs_of_a_start(storage)
    assert storage.disk.is_durable(storage.path / log_file_name(9))


def test_given_a_new_log_without_a_name_on_disk_when_started_then_its_name_is_synced():
    storage = LogStorage()
    storage.directory.checkpoint()

    assert storage.path.name in syncs_of_a_start(storage)
    assert storage.disk.is_durable(storage.path / log_file_name(0))


def test_given_a_flipped_bit_below_the_durable_offset_when_started_then_nothing_is_cut():
    """Damage: the file stays as it is, reads inside say which offset is good again."""
    storage = filled()
    flip(storage, log_file_name(4), ONE + 65)  # in the record 5
    before = storage.disk.read_file(storage.path / log_file_name(4))

    log = storage.kill()

    assert storage.disk.read_file(storage.path / log_file_name(4)) == before
    assert records_of(log.read(0, 10_000)) == expected(0, 5)
    with pytest.raises(CorruptMessageError, match="next good offset is 6"):
        log.read(5, 10_000)
    assert records_of(log.read(8, 10_000)) == expected(8, 9)
    assert (log.log_end_offset, log.high_watermark) == (9, 9)
    assert storage.append(b"9") == 9


def test_given_damage_in_the_last_segment_when_started_then_appends_go_on_behind_the_promised():
    storage = filled(4)
    flip(storage, log_file_name(0), 2 * ONE + 65)

    log = storage.kill()

    assert log.segments.base_offsets == (0, 4)
    assert records_of(log.read(0, 10_000)) == expected(0, 2)
    with pytest.raises(CorruptMessageError, match="next good offset is 3"):
        log.read(2, 10_000)
    assert records_of(log.read(3, ONE)) == expected(3, 4)
    assert storage.append(b"4") == 4
    storage.flush()
    assert records_of(log.read(4, 10_000)) == expected(4, 5)


def test_given_acknowledged_bytes_that_are_gone_when_started_then_their_offsets_are_never_reused():
    storage = filled(4)
    file = storage.disk.open(storage.path / log_file_name(0))
    file.truncate(2 * ONE)

    log = storage.kill()

    assert log.log_end_offset == 4
    assert records_of(log.read(0, 10_000)) == expected(0, 2)
    for offset in (2, 3):
        with pytest.raises(CorruptMessageError, match="2 offsets are missing"):
            log.read(offset, 10_000)
    assert storage.append(b"4") == 4


def test_given_known_damage_when_stopped_and_started_then_it_is_still_known():
    storage = filled()
    flip(storage, log_file_name(4), ONE + 65)
    storage.kill()
    storage.append(b"9")
    storage.flush()

    log = storage.restart()

    assert [each.first_offset for each in log.damage] == [5]
    assert log.log_end_offset == 10


def test_given_no_durable_offset_when_valid_batches_follow_the_bad_bytes_then_it_is_damage():
    """A Kafka directory, or a lost file."""
    storage = filled()
    lose_slots(storage)
    flip(storage, log_file_name(8), 65)
    flip(storage, log_file_name(0), ONE + 65)

    log = storage.kill()

    assert [each.first_offset for each in log.damage] == [1]
    assert storage.directory.summary.cut_bytes == ONE
    assert log.log_end_offset == 8
    assert storage.append(b"8") == 8


@pytest.mark.parametrize(
    ("next_offset", "durable_offset", "has_later", "is_followed", "damage"),
    [
        (5, 6, False, False, True),
        (6, 6, False, False, False),
        (6, 6, True, True, False),
        (5, None, False, False, False),
        (5, None, True, False, True),
        (5, None, False, True, True),
    ],
)
def test_given_bad_bytes_when_judged_then_the_durable_offset_decides(
    next_offset, durable_offset, has_later, is_followed, damage
):
    hints = Hints(False, 0, 0, durable_offset)

    assert is_damage(bad_from(next_offset), hints, is_followed=has_later or is_followed) is damage


def bad_from(offset: int) -> Damage:
    return Damage(0, 100, 150, offset, offset + 1, "bad")


def test_given_a_recovery_point_and_no_durable_offset_when_judged_then_below_it_is_damage():
    """A Kafka directory: what its broker had flushed before it checkpointed."""
    hints = Hints(False, 6, 0, None)

    assert is_damage(bad_from(5), hints, is_followed=False)
    assert not is_damage(bad_from(6), hints, is_followed=False)


def test_given_a_durable_offset_lifted_by_the_log_start_when_judged_then_nothing_was_promised():
    assert not is_damage(bad_from(3), Hints(False, 0, 6, 6), is_followed=True)
    assert is_damage(bad_from(3), Hints(False, 0, 5, 6), is_followed=True)


# --- leftovers ------------------------------------------------------------------------------------


def test_given_deleted_and_cleaned_files_when_started_then_they_go_and_strangers_stay():
    """R31, pass 1"""
    storage = filled()
    for name in (f"{4:020d}.log.deleted", f"{4:020d}.log.cleaned", "x.tmp", "notes.txt"):
        write(storage, name, b"x")

    storage.kill()

    assert not {name for name in storage.names() if name.endswith((".deleted", ".cleaned", ".tmp"))}
    assert "notes.txt" in storage.names()
    assert storage.records() == expected(0, 9)


def test_given_a_sound_swap_file_when_started_then_it_takes_the_place_of_its_originals():
    """R31, pass 2: index files go, the log loses its older originals and its suffix."""
    storage = filled()
    storage.directory.checkpoint()
    originals = [storage.disk.read_file(storage.path / log_file_name(base)) for base in (0, 4)]
    compacted = originals[0][:ONE] + originals[1][3 * ONE :]  # offsets 0 and 7 are left
    write(storage, f"{0:020d}.log.swap", compacted)
    write(storage, f"{0:020d}.index.swap", b"junk")

    log = storage.kill()

    assert log.segments.base_offsets == (0, 8)
    assert not [name for name in storage.names() if name.endswith(".swap")]
    assert storage.records() == [(0, b"0"), (7, b"7"), (8, b"8")]


def test_given_an_unsound_swap_file_when_started_then_its_originals_stay():
    """R31, pass 2"""
    storage = filled()
    write(storage, f"{0:020d}.log.swap", b"\0" * 100)

    storage.kill()

    assert storage.records() == expected(0, 9)
    assert not [name for name in storage.names() if name.endswith(".swap")]


def test_given_index_files_without_a_log_when_started_then_they_are_removed():
    """R31, pass 3"""
    storage = filled()
    write(storage, f"{77:020d}.index", b"\0" * 16)
    write(storage, f"{77:020d}.timeindex", b"\0" * 24)

    storage.kill()

    assert not [name for name in storage.names() if name.startswith(f"{77:020d}")]


@pytest.mark.parametrize("clean", [True, False])
def test_given_segments_without_indexes_when_started_then_they_get_them(clean):
    """R31, passes 4 and 8: a missing or wrong index is built anew, and changes no answer."""
    storage = filled()
    if clean:
        storage.directory.close()
    storage.disk.unlink(storage.path / f"{0:020d}.index")
    write(storage, f"{4:020d}.timeindex", b"\x7f" * 7)
    storage.disk.kill()

    log = storage.restarted()

    assert storage.records() == expected(0, 9)
    assert [records_of(log.read(offset, 1))[0][0] for offset in range(9)] == list(range(9))
    assert log.offset_for_timestamp(0) is not None
    storage.restart()
    assert storage.disk.exists(storage.path / f"{0:020d}.index")


@pytest.mark.parametrize("clean", [True, False])
def test_given_no_segment_at_all_when_started_then_an_empty_one_where_the_log_ended(clean):
    """R31, pass 5"""
    storage = filled()
    if clean:
        storage.directory.close()
    for name in storage.names():
        if name[0].isdigit():
            storage.disk.unlink(storage.path / name)
    storage.disk.kill()

    log = storage.restarted()

    assert (log.log_start_offset, log.log_end_offset) == (9, 9)
    assert storage.append(b"9") == 9


def test_given_a_start_when_appending_then_the_active_indexes_have_their_full_size():
    """R31, pass 7 (R13): or the first append would find them full, and roll."""
    storage = filled()
    storage.restart()

    storage.append(b"9")

    assert storage.log.segments.base_offsets == (0, 4, 8)
    assert storage.disk.file_size(storage.log.active.offset_index.path) == 240


def test_given_garbage_behind_the_end_after_a_clean_stop_when_started_then_it_is_recovered():
    storage = filled()
    storage.directory.close()
    write(storage, log_file_name(8), b"\0" * 40, ONE)

    storage.restarted()

    assert storage.records() == expected(0, 9)
    assert storage.append(b"9") == 9


def test_given_a_log_start_above_all_records_when_started_then_the_log_goes_on_from_there():
    """Policy os: the log start was checkpointed, the records below it never reached the disk."""
    storage = filled(2)
    for number in range(2, 6):
        storage.append(b"%d" % number)
    storage.log.watermark.update(6)
    storage.log.advance_log_start(6)
    storage.directory.checkpoint()
    storage.disk.unlink(SLOTS)

    log = storage.crash()

    assert (log.log_start_offset, log.log_end_offset) == (6, 6)
    assert storage.append(b"6") == 6


def test_given_leader_epochs_in_the_batches_when_recovered_then_the_file_knows_them():
    """R23: recovery rebuilds the leader epochs; they never go down along a log."""
    storage = filled(2)
    storage.log.leader_epoch = 3
    storage.append(b"2")
    storage.flush()

    log = storage.kill()

    assert log.leader_epoch == 3
    assert storage.disk.read_file(storage.path / "leader-epoch-checkpoint") == b"0\n2\n0 0\n3 2\n"
