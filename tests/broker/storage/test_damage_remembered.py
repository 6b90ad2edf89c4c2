"""Wounds that are remembered: what reports in quarantine spare a start, when they say nothing."""

from __future__ import annotations

import errno

import pytest

from broker.storage.quarantine import REPORT_SUFFIX
from protocol.stored.file_names import QUARANTINE_SUFFIX, log_file_name
from tests.support.log_storage import LogStorage
from tests.support.wounded_logs import (
    ONE,
    filled,
    quarantined,
    readable,
    refused,
    reports,
    wound,
    write,
)

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
