"""AuditTask and SegmentAudit: one segment to check, and what was found in it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tidelog.segments.audit.fault import Fault

__all__ = ["AuditTask", "SegmentAudit"]


class AuditTask(NamedTuple):
    """One segment to check; it pickles."""

    topic: str
    partition: int
    path: str
    """Of the `.log` file."""
    base_offset: int
    size_bytes: int
    """When it was listed: of a live log not more is looked at."""
    next_base_offset: int | None = None
    """Of the next file; None for the newest."""
    durable_offset: int = -1
    """Offsets below it were durable, so they must be there; -1 where nobody knows."""
    log_start_offset: int = 0
    """Offsets below it need not be there."""
    index_path: str | None = None
    time_index_path: str | None = None
    transaction_index_path: str | None = None


class SegmentAudit(msgspec.Struct):
    """What was found in one segment."""

    topic: str
    partition: int
    path: str
    base_offset: int
    size_bytes: int
    batch_count: int = 0
    """Entries of the old formats count, too."""
    record_count: int = 0
    """As headers say."""
    first_offset: int | None = None
    last_offset: int | None = None
    gap_count: int = 0
    gap_offsets: int = 0
    """Offsets that no batch takes up, up to the next file."""
    faults: list[Fault] = []
