"""verify --repair: from a bad offset to the next valid one is removed (R40), once asked for."""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path

import pytest

from broker.clock import ManualClock
from broker.offline import plan_repairs, verify_directory
from broker.stopped.segment_repair import carry_out, rebuild_indexes
from broker.stopped.segment_repair import plan_repairs as plan_segments
from broker.storage.log_context import LogContext
from broker.storage.recovery import Hints
from broker.storage.storage_options import StorageOptions
from protocol.errors import DataDirectoryError
from protocol.record_batch import iterate_batches
from tests.support.command_line import call
from tests.support.damaged_kafka_logs import CASES, RECOVERY_POINTS, laid_out, observe
from tests.support.fake_disk import SimulatedCrash
from tests.support.log_storage import NOW_MS, ROOT, SMALL_SEGMENTS, LogStorage, batch

ONE = len(batch(b"0"))
WOUNDED = [name for name in CASES if name.startswith(("bitflip", "torn", "zeroed", "segment"))]


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def errors_in(directory: Path) -> list[str]:
    return [
        problem.text
        for finding in verify_directory(directory)
        for problem in finding.problems
        if problem.severity == "error"
    ]


@pytest.mark.parametrize("was_started", [False, True], ids=["at once", "after a start"])
@pytest.mark.parametrize("case", WOUNDED)
def test_given_damage_when_repaired_then_the_rest_is_served_and_nothing_is_refused(
    case: str, was_started: bool, tmp_path: Path
):
    """R40: the records that were served before are served, and no offset is given anew."""
    directory = laid_out(case, "unclean", tmp_path)
    if was_started:
        observe(directory, case)
    before = observe(Path(shutil.copytree(directory, tmp_path.with_name("copy"))), case)
    shutil.rmtree(tmp_path.with_name("copy"))

    outcome = call("verify", str(directory), "--repair", "--yes")
    again = call("verify", str(directory), "--repair")
    after = observe(directory, case)

    assert outcome.code == 0, outcome.text
    assert "nothing to repair" in again.text
    assert errors_in(directory) == []
    assert after.served == before.served
    assert (after.damage, after.refused, after.wrong) == ([], [], [])
    assert after.log_end == RECOVERY_POINTS[CASES[case]["partition"]]
    reports = [name for name in after.files if name.endswith(".json")]
    assert len(reports) == 1
    report = json.loads((directory / CASES[case]["partition"] / reports[0]).read_text())
    assert (report["first_offset"], report["next_offset"] - 1) == before.refused[0]


@pytest.mark.parametrize("answer", [b"", b"n\n", b"maybe\n"])
def test_given_no_yes_when_asked_then_the_plan_is_shown_and_nothing_is_changed(
    answer: bytes, tmp_path: Path
):
    directory = laid_out("zeroed-sector-sealed", "unclean", tmp_path)
    before = contents(directory)

    outcome = call("verify", str(directory), "--repair", stdin=answer)

    assert outcome.code == 1
    assert "bytes are removed from byte 356 on" in outcome.text
    assert "offsets 31 to 39" in outcome.text
    assert contents(directory) == before


def test_given_a_yes_when_asked_then_it_is_done(tmp_path: Path):
    directory = laid_out("zeroed-sector-sealed", "unclean", tmp_path)

    outcome = call("verify", str(directory), "--repair", stdin=b"y\n")

    assert outcome.code == 0
    assert errors_in(directory) == []


def test_given_json_when_planned_then_each_repair_is_an_object_and_nothing_is_changed(
    tmp_path: Path,
):
    directory = laid_out("bitflip-record-sealed", "unclean", tmp_path)
    before = contents(directory)

    planned = call("verify", str(directory), "--repair", "--json")
    unchanged = contents(directory)
    done = call("verify", str(directory), "--repair", "--json", "--yes")

    (repair,) = planned.json_lines
    assert planned.code == 1
    assert unchanged == before
    assert (repair["kind"], repair["is_done"]) == ("remove", False)
    assert (repair["first_offset"], repair["next_offset"]) == (36, 40)
    assert (repair["position"], repair["size_bytes"]) == (892, 418)
    assert done.code == 0
    assert done.json_lines == [repair | {"is_done": True}]


def test_given_wrong_indexes_and_garbled_files_when_repaired_then_verify_is_content(
    tmp_path: Path,
):
    """Checkpoints are mended by removing them where a start makes them anew."""
    directory = laid_out("index-wrong", "unclean", tmp_path)
    partition = directory / "victim-0"
    (partition / f"{64:020d}.timeindex").unlink()
    (directory / "replication-offset-checkpoint").write_text("garbage")
    (partition / "leader-epoch-checkpoint").write_text("0\nnot a number\n")
    (partition / f"{134:020d}.snapshot").write_bytes(b"no snapshot at all")

    outcome = call("verify", str(directory), "--repair", "--yes")

    assert outcome.code == 0, outcome.text
    assert call("verify", str(directory)).code == 0
    seen = observe(directory, "index-wrong")
    assert (seen.served, seen.missed) == ([(0, 133)], [])


def test_given_a_file_that_nobody_can_make_anew_when_repaired_then_it_is_told(tmp_path: Path):
    directory = laid_out("index-odd-size", "unclean", tmp_path)
    (directory / "victim-0" / "partition.metadata").write_text("?")

    outcome = call("verify", str(directory), "--repair", "--yes")

    assert outcome.code == 1
    assert "nothing can be done" in outcome.text
    assert (directory / "victim-0" / "partition.metadata").read_text() == "?"


def test_given_a_running_broker_when_repairing_then_it_is_refused(tmp_path: Path):
    directory = laid_out("zeroed-page", "unclean", tmp_path)
    before = contents(directory)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        outcome = call("verify", str(directory), "--repair", "--yes")
        with pytest.raises(DataDirectoryError, match="in use"):
            plan_repairs(directory)

    assert outcome.code == 2
    assert contents(directory) == before


def test_given_a_plan_when_open_then_no_broker_can_start(tmp_path: Path):
    directory = laid_out("zeroed-page", "unclean", tmp_path)

    plan = plan_repairs(directory)
    with pytest.raises(DataDirectoryError, match="in use"):
        observe(directory, "zeroed-page")
    plan.close()

    assert observe(directory, "zeroed-page").damage == [(63, 143)]


def test_given_a_torn_tail_when_repairing_then_it_is_left_to_the_next_start(tmp_path: Path):
    directory = laid_out("garbage-appended", "unclean", tmp_path)
    before = contents(directory)

    outcome = call("verify", str(directory), "--repair", "--yes")

    assert outcome.code == 0
    assert "the next start cuts" in outcome.text
    assert contents(directory) == before


def test_given_yes_without_repair_when_called_then_it_is_refused(tmp_path: Path):
    assert call("verify", str(tmp_path), "--yes").code == 2


# --- crashes --------------------------------------------------------------------------------------


def wounded() -> LogStorage:
    """Two wounds in a sealed segment, at its start and in its middle."""
    storage = LogStorage(SMALL_SEGMENTS)
    for number in range(9):
        storage.append(b"%d" % number)
    storage.flush()
    storage.directory.close()
    file = storage.disk.open(storage.path / f"{4:020d}.log")
    for position in (65, 2 * ONE + 65):
        file.write([b"\xff"], position)
    file.sync()
    return storage


HINTS = Hints(False, 0, 0, 9)
BASES = (0, 4, 8)


def mend(storage: LogStorage) -> int:
    """Repair what there is; return how many wounds that were."""
    context = LogContext.with_caches(storage.disk, ManualClock(NOW_MS), StorageOptions())
    repairs = plan_segments(context, storage.path, BASES, HINTS)
    for repair in repairs:
        carry_out(context, storage.path, repair, NOW_MS)
        rebuild_indexes(context, storage.path, repair.base_offset, SMALL_SEGMENTS)
    context.handles.close_all()
    return sum(len(repair.wounds) for repair in repairs)


def changes_of_a_repair() -> int:
    storage = wounded()
    before = len(storage.disk.changes())
    assert mend(storage) == 2
    return len(storage.disk.changes()) - before


@pytest.mark.parametrize("power_cut", [False, True])
@pytest.mark.parametrize("changes", range(changes_of_a_repair()))
def test_given_a_crash_at_any_change_when_repaired_again_then_nothing_sound_is_lost(
    changes: int, power_cut: bool
):
    """Before the rename the old file is there, behind it the new one; a repair again ends it."""
    storage = wounded()
    storage.disk.crash_after(changes)
    with pytest.raises(SimulatedCrash):
        mend(storage)
    (storage.disk.crash if power_cut else storage.disk.kill)()

    mend(storage)

    data = storage.disk.read_file(storage.path / f"{4:020d}.log")
    found = [(header.base_offset, header.record_count) for _, header in iterate_batches(data)]
    assert found == [(4, 0), (5, 1), (6, 0), (7, 1)]
    storage.open()
    assert not storage.log.damage
    assert [offset for offset, _ in storage.records()] == [0, 1, 2, 3, 5, 7, 8]
    copies = [name for name in storage.names() if name.endswith(".quarantine")]
    assert len(copies) == 2
    assert all(storage.disk.file_size(storage.path / name) == ONE for name in copies)
    assert ROOT in storage.path.parents
