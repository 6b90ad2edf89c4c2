"""Recovery: leftovers of the cleaner and of deletions, indexes without logs, no segment at all."""

from __future__ import annotations

import pytest

from protocol.stored.file_names import log_file_name
from tests.support.crashed_logs import ONE, SLOTS, expected, filled, write
from tests.support.log_storage import records_of

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
