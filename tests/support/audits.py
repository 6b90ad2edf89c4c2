"""Audits of a directory by themselves, and small logs for them."""

from __future__ import annotations

from pathlib import Path

from protocol.compression import Codec
from protocol.record_batch_builder import build_batch
from tidelog.segments.audit.audit_plan import lost_logs, plan_audit
from tidelog.segments.audit.fault import Fault
from tidelog.segments.audit.segment_audit import audit_segment
from tidelog.segments.location import locate


def audited(directory: Path, *, is_deep: bool = False, gaps: bool = False) -> list[Fault]:
    """Return all that is wrong."""
    plan = plan_audit(locate(directory))
    segments = [
        audit_segment(plan.location, task, is_deep=is_deep, gaps_are_faults=gaps)
        for task in plan.tasks
    ]
    of_segments = [fault for each in segments for fault in each.faults]
    return [*plan.faults, *of_segments, *lost_logs(plan, segments)]


def batches(directory: Path, *offsets: int, codec: Codec = Codec.NONE) -> Path:
    """Write a log of a record a batch at these offsets, with empty indexes; return its file."""
    directory.mkdir(parents=True)
    log = directory / f"{0:020}.log"
    log.write_bytes(
        b"".join(
            build_batch([(each, 0, b"k", b"value %d" % each)], base_offset=each, codec=codec)
            for each in offsets
        )
    )
    for suffix in (".index", ".timeindex"):
        log.with_suffix(suffix).write_bytes(b"")
    return log
