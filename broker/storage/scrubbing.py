"""Scrubbing: looks at a segment's bytes that nobody may have asked for in years (R40).

Every batch up to the durable offset: position and size inside the file, CRC, offsets in order and
below the next segment's; of a sealed segment each index entry too, against the header it points to.
It runs in a worker process, on descriptors of its own, and changes nothing.

What the page cache holds is read from there; a page that a look brings in leaves again, so that no
reader's page is lost to it. So a bad sector below a page in memory is found once that page is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.storage.damage import Damage
from broker.storage.entry_walk import EntryHeader
from broker.storage.file_handles import FileHandles
from broker.storage.file_records import FileRecords
from broker.storage.index_scrub import IndexScrub
from broker.storage.os_disk import OsDisk, OsFile, open_file
from broker.storage.segment_recovery import SegmentWalk, wound_between
from protocol.errors import CorruptMessageError
from protocol.stored.file_names import log_file_name

if TYPE_CHECKING:
    from broker.storage.disk import Disk

FINDINGS_MAX: Final = 100
"""Of one look at one segment; with so many it is a lost file, and the rest is for recovery."""
PAUSE_S_MAX: Final = 0.2


class ScrubPlan(NamedTuple):
    """One look at one segment, or at a part of it."""

    directory: Path
    base_offset: int
    size_bytes: int
    """Of the `.log`, as the broker knows it; bytes behind it are not looked at."""
    end_offset: int
    """Batches from there on are not looked at: they are not durable yet."""
    limit_offset: int | None
    """The next segment's base offset; None for the active one, whose indexes change."""
    wounds: tuple[Damage, ...]
    """Known ones, in the order of the file: they are passed over."""
    start_position: int = 0
    start_offset: int | None = None
    """The offset that is due at `start_position`; the base offset without it."""
    is_second_look: bool = False
    """What was found before has to be found again, on the disk: cached pages are dropped first."""


class ScrubResult(NamedTuple):
    """What a look has found."""

    bytes_read: int
    findings: tuple[Damage, ...] = ()
    index_fault: str = ""
    """What is wrong with the indexes; "" also where bad batches keep from telling."""


class Throttle:
    """Keeps reading down to a rate."""

    __slots__ = ("_bytes_per_second", "_free_at_s", "_monotonic", "_should_stop", "_sleep", "total")

    def __init__(
        self,
        bytes_per_second: int,
        should_stop: Callable[[], bool],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._bytes_per_second, self._should_stop = bytes_per_second, should_stop
        self._monotonic, self._sleep = monotonic, sleep
        self._free_at_s = monotonic()
        self.total = 0

    def read(self, count: int) -> None:
        """So many bytes were read: return when the next may be.

        Raises:
            ScrubStoppedError: nobody wants to know any more.
        """
        self.total += count
        now_s = self._monotonic()
        self._free_at_s = max(self._free_at_s, now_s) + count / self._bytes_per_second
        while True:
            if self._should_stop():
                raise ScrubStoppedError
            left_s = self._free_at_s - self._monotonic()
            if left_s <= 0:
                return
            self._sleep(min(left_s, PAUSE_S_MAX))


class ScrubStoppedError(Exception):
    """A look was ended from outside; it has no result."""


def scrub_segment(plan: ScrubPlan, disk: Disk, throttle: Throttle) -> ScrubResult:
    """Look at a segment.

    Raises:
        StorageError: it cannot be read.
        ScrubStoppedError: see `Throttle.read`.
    """
    handles = FileHandles(disk)
    path = plan.directory / log_file_name(plan.base_offset)
    try:
        if plan.is_second_look:
            handles.get(path).drop_cached_pages(0, 0)
        records = FileRecords(handles, path, plan.size_bytes)
        walk = SegmentWalk(records, plan.base_offset, limit_offset=plan.limit_offset)
        findings: list[Damage] = []
        indexes = None
        if plan.limit_offset is not None and not plan.start_position:
            indexes = IndexScrub.load(disk, plan.directory, plan.base_offset)
        for position, header in _sound_batches(walk, plan, findings):
            if indexes is not None:
                indexes.see(position, header)
        fault = "" if indexes is None else indexes.finish()
        if findings or plan.wounds:
            fault = ""
        return ScrubResult(throttle.total, tuple(findings), fault)
    finally:
        handles.close_all()


def _sound_batches(
    walk: SegmentWalk, plan: ScrubPlan, findings: list[Damage]
) -> Iterator[tuple[int, EntryHeader]]:
    """Yield the sound batches below the end offset; add what lies between them to the findings."""
    position, start_offset = plan.start_position, plan.start_offset
    expected = plan.base_offset if start_offset is None else start_offset
    while position < walk.size_bytes and expected < plan.end_offset:
        wound = next((each for each in plan.wounds if each.end_position > position), None)
        stop = walk.size_bytes if wound is None else wound.position
        try:
            for at, header in walk.checked_batches(position, expected, stop):
                if header.base_offset >= plan.end_offset:
                    return
                yield at, header
        except CorruptMessageError as error:
            position, expected = walk.sound_position, walk.sound_offset
            if expected >= plan.end_offset:
                return
            later = walk.find_later(position, expected)
            found = wound_between(walk, position, expected, later, error.reason)
            if later is None and plan.limit_offset is not None:
                found = found._replace(next_offset=plan.limit_offset)
            findings.append(found)
            if later is None or len(findings) >= FINDINGS_MAX:
                return
            position, expected = later.position, later.offset
            continue
        if wound is None:
            return
        position, expected = wound.end_position, wound.next_offset


# --- files ------------------------------------------------------------------------------------


class PoliteFile(OsFile):
    """Leaves the page cache as it was, and keeps to a rate."""

    __slots__ = ("_throttle",)

    def __init__(self, path: Path, descriptor: int, throttle: Throttle) -> None:
        super().__init__(path, descriptor)
        self._throttle = throttle
        self.expect_random_reads()  # else reading ahead would bring in pages that nobody counts

    def read(self, size: int, position: int) -> bytes:
        cold = self.uncached_ranges(position, size)
        data = super().read(size, position)
        self._settle(cold, len(data))
        return data

    def read_into(self, buffer: memoryview, position: int) -> int:
        cold = self.uncached_ranges(position, len(buffer))
        count = super().read_into(buffer, position)
        self._settle(cold, count)
        return count

    def _settle(self, cold: list[tuple[int, int]], count: int) -> None:
        for position, size in cold:
            self.drop_cached_pages(position, size)
        self._throttle.read(count)


class PoliteDisk(OsDisk):
    """Opens files that are read on the side, and never written."""

    __slots__ = ("_throttle",)

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> OsFile:
        assert not create, "a look makes no files"
        return PoliteFile(path, open_file(path, read_only=True), self._throttle)
