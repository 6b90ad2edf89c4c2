"""Damage: cuts at wounds, wounds that touch or go, and what an error of damage carries."""

from __future__ import annotations

import pickle

import pytest

from broker.storage.damage import Damage, DamageFoundError, LogDamage
from broker.storage.log_config import CleanupPolicy
from broker.storage.log_reader import ReadLimit
from protocol.stored.file_names import CLEAN_SHUTDOWN_MARKER, log_file_name
from tests.support.log_storage import ROOT, LogStorage
from tests.support.wounded_logs import LARGE_SEGMENTS, ONE, filled, readable, wound, write

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
