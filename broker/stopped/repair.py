"""Repair: what can be done about the findings of a verification, and doing it.

    plan = plan_repairs(directory)        looks, changes nothing, holds the lock
    plan.repairs                          what it would do, a sentence each
    plan.notes                            what needs no repair, and why
    plan.hopeless                         what cannot be repaired, and why
    for done in plan.carry_out(): ...     does it; each is durable when it is yielded
    plan.close()

Nothing is done that a start does by itself, such as cutting a torn tail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker.clock import Clock, SystemClock
from broker.stopped.findings import FileFinding, Severity
from broker.stopped.segment_repair import (
    SegmentRepair,
    carry_out,
    rebuild_indexes,
)
from broker.stopped.segment_repair import (
    plan_repairs as plan_segment_repairs,
)
from broker.stopped.small_files import durable_offsets_of, offsets_in
from broker.stopped.verification import durable_offset_of, partition_directories, verify_directory
from broker.storage.damage import Damage
from broker.storage.disk import Disk
from broker.storage.log_config import LogConfig
from broker.storage.log_context import LogContext
from broker.storage.os_disk import OsDisk
from broker.storage.recovery import Hints
from broker.storage.storage_options import StorageOptions
from protocol.stored import file_names
from protocol.stored.file_names import parse_directory_name, parse_file_name

REMOVABLE: Final = {
    file_names.RECOVERY_POINT_CHECKPOINT: "the next start checks every log as a whole",
    file_names.HIGH_WATERMARK_CHECKPOINT: "the next start writes it anew",
    file_names.LOG_START_CHECKPOINT: "the next start takes the log starts from durable-offsets, "
    "as far as they are there; else deleted records of a log's first segment are back",
    file_names.CLEANER_CHECKPOINT: "the cleaner begins at the start of each log",
    file_names.LEADER_EPOCH_CHECKPOINT: "the next start reads the epochs from the batches",
    file_names.CLEAN_SHUTDOWN_MARKER: "the next start recovers",
    file_names.DURABLE_OFFSETS: "the next start tells torn tails from damage without them",
    file_names.SNAPSHOT_SUFFIX: "the next start reads the producers from the log",
}
"""Files that a start makes anew, by name or suffix, and what it does without them."""

INDEX_KINDS: Final = ("index", "timeindex")
NOT_SMALL: Final = ("log", "quarantine", *INDEX_KINDS)


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that can be done."""

    path: Path
    kind: str
    """remove (bad bytes), fill (a gap), rebuild (indexes) or delete (a file)."""
    problem: str
    action: str
    position: int | None = None
    size_bytes: int = 0
    """Of what is removed; it is in quarantine then, where it is part of a log."""
    first_offset: int | None = None
    next_offset: int | None = None
    """Offsets of which the records are gone, before the repair as after it."""


@dataclass(slots=True)
class RepairPlan:
    """What can be done to one directory. Holds its lock until `close`."""

    directory: Path
    findings: int
    """Errors and warnings that were found."""
    repairs: list[Repair] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hopeless: list[str] = field(default_factory=list)
    _work: list[tuple[tuple[Repair, ...], Callable[[], None]]] = field(default_factory=list)
    _close: Callable[[], None] = lambda: None

    def add(self, repairs: tuple[Repair, ...], work: Callable[[], None]) -> None:
        """Take what is done together."""
        self.repairs += repairs
        self._work.append((repairs, work))

    def carry_out(self) -> Iterator[Repair]:
        """Do all of it; yield each repair when it is durable.

        Raises:
            StorageError, OSError: the disk refused; what was not yielded can be tried again.
        """
        for repairs, work in self._work:
            work()
            yield from repairs

    def close(self) -> None:
        """Give the directory back."""
        self._close()


def plan_repairs(
    directory: Path,
    *,
    disk: Disk | None = None,
    clock: Clock | None = None,
    on_bytes: Callable[[int], None] = lambda size: None,
) -> RepairPlan:
    """Look at a data directory, or one partition's, and say what can be repaired.

    Args:
        on_bytes: As for `verify_directory`.

    Raises:
        DataDirectoryError: no such directory, no directory of a broker, or one in use.
        OSError, StorageError: the disk cannot read it.
    """
    disk = disk if disk is not None else OsDisk()
    partitions = partition_directories(directory)
    is_partition = partitions == [directory]
    data_directory = directory.resolve().parent if is_partition else directory
    findings = list(verify_directory(directory, on_bytes=on_bytes))
    lock = disk.lock(data_directory / file_names.LOCK_FILE)
    context = LogContext.with_caches(
        disk, clock if clock is not None else SystemClock(), StorageOptions()
    )

    def close() -> None:
        context.handles.close_all()
        lock.release()

    try:
        planner = _Planner(context, directory, data_directory, findings, close)
        if not is_partition:
            planner.plan_small_files(data_directory)
        for partition in partitions:
            planner.plan_partition(partition)
    except BaseException:
        close()
        raise
    return planner.plan


class _Planner:
    """Turns findings into repairs."""

    def __init__(
        self,
        context: LogContext,
        directory: Path,
        data_directory: Path,
        findings: list[FileFinding],
        close: Callable[[], None],
    ) -> None:
        self.context, self.data_directory = context, data_directory
        self.findings: dict[Path, list[FileFinding]] = {}
        for each in findings:
            self.findings.setdefault(each.path.parent, []).append(each)
        bad = sum(
            problem.severity is not Severity.NOTE for each in findings for problem in each.problems
        )
        self.plan = RepairPlan(directory, bad, _close=close)
        self.durable = durable_offsets_of(data_directory)
        self.recovery_points = offsets_in(data_directory / file_names.RECOVERY_POINT_CHECKPOINT)
        self.log_starts = offsets_in(data_directory / file_names.LOG_START_CHECKPOINT)

    def plan_small_files(self, directory: Path) -> None:
        """Files that do not parse: those that a start makes anew go, others are named."""
        for finding in self.findings.get(directory, []):
            if finding.kind in NOT_SMALL or finding.worst in (None, Severity.NOTE):
                continue
            path, problem = finding.path, finding.problems[0].text
            then = REMOVABLE.get(path.name) or REMOVABLE.get(path.suffix)
            if then is None:
                self.plan.hopeless.append(f"{path}: {problem}: nothing can be done about this")
                continue
            repair = Repair(
                path, "delete", problem, f"the file is removed: {then}",
                size_bytes=finding.size_bytes,
            )  # fmt: skip
            self.plan.add((repair,), lambda path=path: self._delete(path))  # type: ignore[misc]

    def plan_partition(self, directory: Path) -> None:
        findings = self.findings.get(directory, [])
        names = [each for path in directory.iterdir() if (each := parse_file_name(path.name))]
        if any(each.state == file_names.SWAP_SUFFIX for each in names):
            self.plan.hopeless.append(
                f"{directory}: a crash has left .swap files: start the broker, which finishes "
                "them, stop it, and look again"
            )
            return
        bases = tuple(
            sorted(each.base_offset for each in names if each[1:] == (file_names.LOG_SUFFIX, ""))
        )
        self.plan_small_files(directory)
        if not bases:
            return
        lost = self._lost_ranges(bases, findings)
        mended = set()
        hints = self._hints(directory)
        for repair in plan_segment_repairs(self.context, directory, bases, hints, lost):
            self._plan_segment(directory, repair)
            mended.add(repair.base_offset)
        self._plan_indexes(directory, findings, mended)
        for finding in findings:
            name = parse_file_name(finding.path.name)
            if name is not None and finding.kind == "log" and name.base_offset not in mended:
                self.plan.hopeless += [
                    f"{finding.path}: {problem.text}: there is no rule for this"
                    for problem in finding.problems
                    if problem.severity is Severity.ERROR
                ]
        for finding in findings:
            self.plan.notes += [
                f"{finding.path}: {problem.text}: nothing has to be done"
                for problem in finding.problems
                if problem.severity is Severity.WARNING and "next start cuts" in problem.text
            ]

    def _plan_segment(self, directory: Path, repair: SegmentRepair) -> None:
        path = directory / file_names.log_file_name(repair.base_offset)
        repairs = tuple(_explained(path, wound.damage) for wound in repair.wounds)

        def work() -> None:
            carry_out(self.context, directory, repair, self.context.clock.now_ms())
            rebuild_indexes(self.context, directory, repair.base_offset, LogConfig())

        self.plan.add(repairs, work)

    def _plan_indexes(self, directory: Path, findings: list[FileFinding], mended: set[int]) -> None:
        for finding in findings:
            name = parse_file_name(finding.path.name)
            if name is None or name.base_offset in mended:
                continue
            problems = [
                each.text
                for each in finding.problems
                if each.severity is Severity.WARNING
                and (finding.kind in INDEX_KINDS or each.text.endswith("index is missing"))
            ]
            if not problems:
                continue
            base_offset = int(name.base_offset)
            mended.add(base_offset)
            action = "both indexes of the segment are built anew from its log"
            repair = Repair(finding.path, "rebuild", problems[0], action)

            def work(base_offset: int = base_offset) -> None:
                rebuild_indexes(self.context, directory, base_offset, LogConfig())

            self.plan.add((repair,), work)

    def _hints(self, directory: Path) -> Hints:
        name = parse_directory_name(directory.resolve().name)
        partition = None if name is None else name.topic_partition
        durable = durable_offset_of(directory, self.durable)
        return Hints(
            False,
            None if partition is None else self.recovery_points.get(partition),
            0 if partition is None else self.log_starts.get(partition, 0),
            durable if durable >= 0 else None,
        )

    @staticmethod
    def _lost_ranges(
        bases: tuple[int, ...], findings: list[FileFinding]
    ) -> tuple[tuple[int, int], ...]:
        """Return what is known to be missing between segments, as `verification` has found."""
        starts = {
            problem.offset
            for finding in findings
            for problem in finding.problems
            if finding.kind != "log" and problem.severity is Severity.ERROR
            if problem.offset is not None
        }
        return tuple((each, min(base for base in bases if base > each)) for each in sorted(starts))

    def _delete(self, path: Path) -> None:
        self.context.disk.unlink(path)
        self.context.disk.sync_directory(path.parent)


def _explained(path: Path, damage: Damage) -> Repair:
    """Say what is wrong with a stretch of a log, and what becomes of it."""
    kind, action = "fill", "nothing is removed"
    if damage.size_bytes:
        kind = "remove"
        action = (
            f"{damage.size_bytes} bytes are removed from byte {damage.position} on, and kept in "
            "quarantine"
        )
    count = damage.next_offset - damage.first_offset
    if count:
        action += "; an empty batch stands for the offsets, which stay without records"
    return Repair(
        path, kind, str(damage), action, damage.position, damage.size_bytes,
        damage.first_offset, damage.next_offset,
    )  # fmt: skip
