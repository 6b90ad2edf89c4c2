"""Offset audit: whether the offsets of a segment's batches go up, and where they leave gaps.

Compared with those of the batch before, not with the largest so far: one wrong base offset, which
no CRC covers, is then two faults and not one for each batch up to the file's end.
"""

from __future__ import annotations

import numpy as np

from protocol.limits import SEGMENT_OFFSET_SPAN_MAX
from tidelog.segments.audit.audit_task import AuditTask, SegmentAudit
from tidelog.segments.audit.fault import FaultKind, Faults, Severity
from tidelog.segments.batch_table import BatchTable
from tidelog.segments.log_walk import Damage

__all__ = ["OffsetAudit"]


class OffsetAudit:
    """The offsets of one segment, batch by batch and damage by damage."""

    def __init__(
        self, task: AuditTask, found: SegmentAudit, faults: Faults, *, gaps_are_faults: bool
    ) -> None:
        self._task, self._found, self._faults = task, found, faults
        self._gap_severity = Severity.ERROR if gaps_are_faults else Severity.NOTE
        self._pending: list[Damage] = []
        self._first = task.base_offset
        """The first offset of the batch before."""
        self.last_offset = task.base_offset - 1
        self.is_in_order = True
        far, following = task.base_offset + SEGMENT_OFFSET_SPAN_MAX, task.next_base_offset
        self._offset_max = far if following is None else min(far, following - 1)

    def batches(self, start: int, table: BatchTable) -> None:
        """Take note of batches; `start` is where in the file their positions count from."""
        firsts, lasts = table["base_offset"], table["last_offset"]
        self.entry(start + int(table["position"][0]), int(firsts[0]), int(lasts[0]))
        is_far = lasts[1:] > self._offset_max
        for number in np.flatnonzero((firsts[1:] > lasts[:-1] + 1) & ~is_far).tolist():
            position = start + int(table["position"][number + 1])
            self._gap(position, int(lasts[number]) + 1, int(firsts[number + 1]) - 1)
        for number in np.flatnonzero(is_far).tolist():
            row = table[number + 1]
            position = start + int(row["position"])
            self._too_far(position, int(row["base_offset"]), int(row["last_offset"]))
        self._first, self.last_offset = int(firsts[-1]), int(lasts[-1])

    def entry(self, position: int, first: int, last: int) -> None:
        """Take note of one batch, or entry of an old format, and its offsets."""
        if self._pending:
            self._settle(first - 1)
        if first <= self.last_offset:
            self._backwards(position, first, last)
        elif first > self.last_offset + 1 and last <= self._offset_max:
            self._gap(position, self.last_offset + 1, first - 1)
        if last > self._offset_max:
            self._too_far(position, first, last)
        if self._found.first_offset is None:
            self._found.first_offset = first
        self._first, self.last_offset = first, last

    def damage(self, damage: Damage) -> None:
        """Take note of bytes that are no sound batch; what they hide is known at the next one."""
        before = self._pending[-1] if self._pending else None
        if before is not None and before.first_offset is None and damage.first_offset is None:
            size_bytes = before.size_bytes + damage.size_bytes
            self._pending[-1] = before._replace(size_bytes=size_bytes)
        else:
            self._pending.append(damage)

    def finish(self, *, is_growing: bool) -> None:
        """Report what is wrong at the end.

        Args:
            is_growing: A broker is writing: what is not whole at the end is no fault.
        """
        task, following = self._task, self._task.next_base_offset
        if self._found.first_offset is not None:
            self._found.last_offset = self.last_offset
        if self._pending and is_growing and following is None:
            self._pending.clear()
        if self._pending:
            self._settle(None if following is None else following - 1, is_tail=True)
        elif following is not None and following > self.last_offset + 1:
            self._gap(task.size_bytes, self.last_offset + 1, following - 1)
        if following is None and self.last_offset + 1 < task.durable_offset:
            last = task.durable_offset - 1
            self._faults.add(
                FaultKind.MISSING,
                Severity.ERROR,
                f"offsets up to {last} were durable and are not there",
                position=task.size_bytes,
                offsets=(self.last_offset + 1, last),
            )

    def _backwards(self, position: int, first: int, last: int) -> None:
        self.is_in_order = False
        if self.last_offset < self._task.base_offset:
            kind = FaultKind.MISPLACED
            text = f"offset {first} is below the file's first ({self._task.base_offset})"
        else:
            kind = FaultKind.OVERLAP if last >= self._first else FaultKind.DISORDER
            text = f"offset {first} comes after offset {self.last_offset}"
        self._faults.add(kind, Severity.ERROR, text, position=position, offsets=(first, last))

    def _too_far(self, position: int, first: int, last: int) -> None:
        self.is_in_order = False
        task = self._task
        if task.next_base_offset is not None and last >= task.next_base_offset:
            text = f"offset {last} belongs to the next file ({task.next_base_offset})"
        else:
            text = f"offset {last} is too far from the file's first ({task.base_offset})"
        self._faults.add(
            FaultKind.MISPLACED, Severity.ERROR, text, position=position, offsets=(first, last)
        )

    def _gap(self, position: int, first: int, last: int) -> None:
        first = max(first, self._task.log_start_offset)
        count = last - first + 1
        if count <= 0:
            return
        self._found.gap_count += 1
        self._found.gap_offsets += count
        self._faults.add(
            FaultKind.GAP,
            self._gap_severity,
            f"{count} offset{'s are' if count > 1 else ' is'} not there",
            position=position,
            offsets=(first, last),
        )

    def _settle(self, last_offset: int | None, *, is_tail: bool = False) -> None:
        """Report pending damage.

        Args:
            last_offset: What it hides ends here; None: nobody knows.
        """
        followers = [*self._pending[1:], None]
        for damage, follower in zip(self._pending, followers, strict=True):
            first, last = self.last_offset + 1, last_offset
            if follower is not None and follower.first_offset is not None:
                last = follower.first_offset - 1
            if damage.first_offset is not None and damage.last_offset is not None:
                fits = last is None or damage.last_offset <= last
                if first <= damage.first_offset and fits:
                    first, last = damage.first_offset, damage.last_offset
            self._report(damage, first, last, is_tail=is_tail)
            if last is not None and last >= first:
                self._first, self.last_offset = first, last
        self._pending.clear()

    def _report(self, damage: Damage, first: int, last: int | None, *, is_tail: bool) -> None:
        is_newest = self._task.next_base_offset is None
        is_torn = is_tail and is_newest and first >= self._task.durable_offset
        what = "a torn tail, which the next start cuts" if is_torn else "damage"
        self._faults.add(
            FaultKind.TORN if is_torn else FaultKind.DAMAGE,
            Severity.WARNING if is_torn else Severity.ERROR,
            f"{what}: {damage.size_bytes} bytes: {damage.reason}",
            position=damage.position,
            size_bytes=damage.size_bytes,
            offsets=(first, last if last is None or last >= first else None),
        )
