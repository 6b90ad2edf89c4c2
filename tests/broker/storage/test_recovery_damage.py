"""Recovery: what is synced again, and damage told from a torn tail by what was durable."""

from __future__ import annotations

import pytest

from broker.storage.damage import Damage
from broker.storage.recovery import Hints, is_damage
from protocol.errors import CorruptMessageError
from protocol.stored.file_names import log_file_name
from tests.support.crashed_logs import ONE, SLOTS, expected, filled, write
from tests.support.log_storage import ROOT, LogStorage, records_of


def flip(storage: LogStorage, name: str, position: int) -> None:
    """Flip one bit."""
    (byte,) = storage.disk.read_file(storage.path / name)[position : position + 1]
    write(storage, name, bytes([byte ^ 1]), position)


def lose_slots(storage: LogStorage) -> None:
    storage.disk.unlink(SLOTS)
    storage.disk.sync_directory(ROOT)


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


def test_given_a_deleted_segment_of_which_an_index_came_back_when_started_then_nothing_is_lost():
    """Below the log start: a power cut may undo the renames of older segments, not this log's."""
    storage = filled()
    storage.log.advance_log_start(8)
    storage.directory.checkpoint()
    storage.disk.rename(storage.path / log_file_name(4), storage.path / f"{4:020d}.log.deleted")
    storage.disk.kill()

    log = storage.restarted()

    assert list(log.damage) == []
    assert (log.log_start_offset, log.log_end_offset) == (8, 9)
    assert records_of(log.read(8, 10_000)) == expected(8, 9)
