"""Torn tails: what is cut, what goes into quarantine first, and a crash meanwhile."""

from __future__ import annotations

import pytest

from protocol.stored.file_names import QUARANTINE_SUFFIX, log_file_name
from tests.support.fake_disk import SimulatedCrash
from tests.support.log_storage import SMALL_SEGMENTS, LogStorage
from tests.support.wounded_logs import ONE, filled, quarantined, readable, reports, wound, write

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
