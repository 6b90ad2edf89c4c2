"""Audit: every byte of any number of data directories, checked in parallel.

A task takes whole segments with their indexes; only figures and faults leave it. What is checked is
said in `tidelog.segments.audit.segment_audit`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from tidelog.segments.audit.audit_plan import AuditPlan, lost_logs, plan_audit
from tidelog.segments.audit.audit_task import AuditTask, SegmentAudit
from tidelog.segments.audit.fault import Fault, FaultKind, Severity
from tidelog.segments.audit.segment_audit import audit_segment
from tidelog.segments.errors import OptionError, SegmentError
from tidelog.segments.location import Location, locate
from tidelog.spark.jobs.job import Job
from tidelog.spark.task_groups import run_grouped

__all__ = ["AuditOptions", "AuditResult", "Piece", "check", "run"]


class AuditOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to check, and how."""

    paths: tuple[str, ...]
    """Data directories, partitions' directories or single segments; URLs, too."""
    topics: tuple[str, ...] = ()
    """These only; () is all."""
    is_deep: bool = False
    """Also decode every record."""
    gaps_are_faults: bool = False
    """Offsets that are missing are errors: nothing of it was ever compacted."""
    shows_notes: bool = False
    """Have the table name what is nothing to worry about, too."""

    def __post_init__(self) -> None:
        if not self.paths:
            raise OptionError("name a directory to audit")


class AuditResult(msgspec.Struct, kw_only=True):
    """What was found."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    gaps: int = 0
    gap_offsets: int = 0
    """How many offsets are in gaps."""
    counts: dict[str, int] = {}
    """Faults by severity; of one kind in one file those beyond 20 are one."""
    faults: list[Fault] = []
    """All, notes too, by file and position."""
    is_dry_run: bool = False
    shows_notes: bool = False

    @property
    def is_ok(self) -> bool:
        return not self.counts.keys() - {Severity.NOTE.value}

    def rows(self) -> Sequence[dict[str, object]]:
        """Return a row a fault; notes only where they were asked for."""
        return [
            {
                "severity": fault.severity.value,
                "file": fault.file,
                "position": fault.position,
                "offsets": fault.offsets or None,
                "fault": fault.kind.value,
                "what": fault.text,
            }
            for fault in self.faults
            if self.shows_notes or fault.severity is not Severity.NOTE
        ]

    def sentence(self) -> str:
        amount = f"{self.segments:,} segments, {self.size_bytes:,} bytes"
        if self.is_dry_run:
            return f"{amount} would be checked"
        found = ", ".join(
            f"{self.counts[name]:,} {name}{'s' if self.counts[name] > 1 else ''}"
            for name in ("error", "warning", "note")
            if name in self.counts
        )
        gaps = f", {self.gaps:,} gaps of {self.gap_offsets:,} offsets" if self.gaps else ""
        return f"{amount}, {self.batches:,} batches, {self.records:,} records{gaps}: " + (
            found or "clean"
        )


class Piece(NamedTuple):
    """What a task is given."""

    location: Location
    task: AuditTask
    plan_number: int


def run(options: AuditOptions, job: Job) -> AuditResult:
    """Check what the options name.

    Raises:
        SegmentError: a path is not there, or holds no log; a topic is under none of them.
    """
    topics = options.topics or None
    plans = [plan_audit(locate(path), topics) for path in options.paths]
    pieces = [
        Piece(plan.location, task, number)
        for number, plan in enumerate(plans)
        for task in plan.tasks
    ]
    _check_topics(options, pieces)
    result = AuditResult(is_dry_run=job.is_dry_run, shows_notes=options.shows_notes)
    if job.is_dry_run:
        result.segments = len(pieces)
        result.size_bytes = sum(map(_size_of, pieces))
        return result
    one = partial(check, is_deep=options.is_deep, gaps_are_faults=options.gaps_are_faults)
    on_done = partial(job.progress, "tasks")
    found = run_grouped(job.session, one, pieces, _size_of, on_done) if pieces else []
    _sum_up(result, plans, found)
    job.metric("faults", sum(result.counts.values()), "Faults found, notes too.")
    job.metric("bytes", result.size_bytes, "Bytes of logs checked.")
    return result


def _check_topics(options: AuditOptions, pieces: Sequence[Piece]) -> None:
    missing = set(options.topics) - {piece.task.topic for piece in pieces}
    if missing:
        paths = ", ".join(options.paths)
        raise SegmentError(f"{paths} has no topic {', '.join(sorted(missing))}")


def _size_of(piece: Piece) -> int:
    return piece.task.size_bytes


def check(piece: Piece, *, is_deep: bool, gaps_are_faults: bool) -> tuple[int, SegmentAudit]:
    """Check one segment in a task; that it cannot be read is a fault like others."""
    task = piece.task
    try:
        found = audit_segment(
            piece.location, task, is_deep=is_deep, gaps_are_faults=gaps_are_faults
        )
    except OSError as error:
        fault = Fault(FaultKind.MISSING, Severity.ERROR, task.path, f"it cannot be read: {error}")
        found = SegmentAudit(
            task.topic, task.partition, task.path, task.base_offset, 0, faults=[fault]
        )
    return piece.plan_number, found


def _sum_up(
    result: AuditResult, plans: Sequence[AuditPlan], found: Sequence[tuple[int, SegmentAudit]]
) -> None:
    for number, plan in enumerate(plans):
        segments = [segment for of, segment in found if of == number]
        result.faults += [*plan.faults, *lost_logs(plan, segments)]
        for segment in segments:
            result.faults += segment.faults
            result.segments += 1
            result.batches += segment.batch_count
            result.records += segment.record_count
            result.size_bytes += segment.size_bytes
            result.gaps += segment.gap_count
            result.gap_offsets += segment.gap_offsets
    result.faults.sort(key=lambda fault: (fault.file, fault.position or 0))
    result.counts = dict(Counter(fault.severity.value for fault in result.faults))
