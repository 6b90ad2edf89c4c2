"""Sealed segments on a disk in memory, cleaned without a broker: passes, and what they leave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from broker.clock import ManualClock
from broker.steps import run_to_end
from broker.storage.batch_filter import LastRecord
from broker.storage.cleanable_log import cleaning_job, plan_log
from broker.storage.cleaner_checkpoint import CleanerCheckpoint
from broker.storage.compaction import CompactionSegment
from broker.storage.compactor import CleaningJob, CleaningResult, clean_log
from broker.storage.disk import Disk, write_whole
from protocol.record_batch import Record, check_batch, iterate_batches, iterate_records
from protocol.record_batch_header import BatchHeader, parse_header
from protocol.stored import transaction_index
from protocol.stored.file_names import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    RECOVERY_POINT_CHECKPOINT,
    SEGMENT_SUFFIXES,
    log_file_name,
    segment_file_name,
    transaction_index_file_name,
)
from protocol.stored.transaction_index import AbortedTransaction
from tests.support.fake_disk import FakeDisk
from tests.support.log_storage import LogStorage

DIRECTORY = Path("/tide-0")
NOW_MS = 1_700_000_000_000


class StoredBatch(NamedTuple):
    """One batch as it lies in a segment."""

    header: BatchHeader
    data: bytes
    records: tuple[Record, ...]


class SealedSegments:
    """A partition's directory of sealed segments; what is at or above `end_offset` is elsewhere."""

    def __init__(self, end_offset: int, disk: Disk | None = None, path: Path = DIRECTORY) -> None:
        self.clock = ManualClock(NOW_MS)
        self.disk = disk if disk is not None else FakeDisk(clock=self.clock)
        self.path = path
        self.end_offset = end_offset
        self.cleaned_offset = 0
        if not self.disk.is_directory(path):
            self.disk.make_directory(path)

    def write(
        self, batches: Sequence[bytes], base_offset: int, aborted: Sequence[AbortedTransaction] = ()
    ) -> None:
        """Write one segment."""
        self._write(log_file_name(base_offset), b"".join(batches))
        if aborted:
            name = transaction_index_file_name(base_offset)
            self._write(name, transaction_index.encode(aborted))

    def _write(self, name: str, data: bytes) -> None:
        file = self.disk.open(self.path / name, create=True)
        file.truncate(0)
        write_whole(file, [data], 0)
        file.close()

    @property
    def base_offsets(self) -> list[int]:
        names = self.disk.list_directory(self.path)
        return sorted(int(name[:20]) for name in names if name.endswith(LOG_SUFFIX))

    def job(self, **settings: Any) -> CleaningJob:
        """A pass over all of them."""
        bases = self.base_offsets
        segments = tuple(
            CompactionSegment(base, following, self.disk.file_size(self.path / log_file_name(base)))
            for base, following in zip(bases, [*bases[1:], self.end_offset], strict=True)
        )
        defaults: dict[str, Any] = {
            "directory": str(self.path),
            "segments": segments,
            "later_base_offsets": (self.end_offset,),
            "first_dirty_offset": self.cleaned_offset,
            "first_uncleanable_offset": self.end_offset,
            "now_ms": self.clock.now_ms(),
            "delete_retention_ms": 1000,
            "segment_bytes": 1 << 20,
            "segment_index_bytes": 1 << 13,
            "index_interval_bytes": 100,
            "last_records": {},
            "dedupe_buffer_bytes": 1 << 16,
        }
        return CleaningJob(**defaults | settings)

    def clean(self, **settings: Any) -> CleaningResult:
        """One pass, its groups put in place as a broker does."""
        result = clean_log(self.job(**settings), self.disk, self.clock)
        for group in result.groups:
            for base_offset in group.old_base_offsets:
                for kind in SEGMENT_SUFFIXES:
                    path = self.path / segment_file_name(base_offset, kind)
                    if self.disk.exists(path):
                        self.disk.unlink(path)
            for kind in SEGMENT_SUFFIXES:
                name = segment_file_name(group.old_base_offsets[0], kind)
                cleaned = self.path / (name + CLEANED_SUFFIX)
                if self.disk.exists(cleaned):
                    self.disk.rename(cleaned, self.path / name)
        self.cleaned_offset = result.cleaned_offset
        return result

    def clean_all(self, passes_max: int = 1000, **settings: Any) -> int:
        """Passes until everything is clean; return how many."""
        for number in range(1, passes_max + 1):
            before = self.cleaned_offset
            self.clean(**settings)
            if self.cleaned_offset == self.end_offset:
                return number
            assert self.cleaned_offset > before, "a pass without progress"
        raise AssertionError("too many passes")

    def batches(self) -> list[StoredBatch]:
        """Every batch that is left, checked."""
        found = []
        for base_offset in self.base_offsets:
            data = self.disk.read_file(self.path / log_file_name(base_offset))
            for position, header in iterate_batches(data):
                check_batch(data, position)
                end = position + header.size_bytes
                records = tuple(iterate_records(data, position))
                found.append(StoredBatch(header, data[position:end], records))
        return found

    def records(self) -> list[Record]:
        """Every record that is left, those of control batches left out."""
        return [
            record
            for batch in self.batches()
            if not batch.header.is_control
            for record in batch.records
        ]


def last_records(batches: Sequence[bytes]) -> dict[int, LastRecord]:
    """What a log of these batches knows of its producers."""
    found: dict[int, LastRecord] = {}
    for data in batches:
        header = parse_header(data)
        if header.producer_id < 0:
            continue
        before = found.get(header.producer_id)
        last = header.last_offset
        if header.is_control:
            last = before.last_data_offset if before is not None else -1
        found[header.producer_id] = LastRecord(last, header.producer_epoch)
    return found


def clean_storage(storage: LogStorage, passes_max: int = 100, **settings: Any) -> int:
    """Clean the one log of a data directory as the cleaner does, in place; return how many passes.

    Nothing is done where its plan says that nothing is to be cleaned.
    """
    log, directory = storage.log, storage.directory
    checkpoint = CleanerCheckpoint(storage.disk, directory.path)
    checkpoint.tell(log)
    for passes in range(passes_max):
        written = directory.checkpoints.written.get(RECOVERY_POINT_CHECKPOINT, {})
        now_ms = storage.clock.now_ms()
        recovery_point = written.get(log.topic_partition, 0)
        plan = plan_log(log, recovery_point=recovery_point, now_ms=now_ms)
        if not plan.cleanable_bytes and (passes or not settings.pop("again", False)):
            return passes
        options = {"dedupe_buffer_bytes": 1 << 16} | settings
        job = cleaning_job(log, plan, now_ms=now_ms, **options)
        result = clean_log(
            job,
            storage.disk,
            storage.clock,
            report=lambda group: run_to_end(log.cleaning.replace(group)),
        )
        log.cleaning.cleaned_offset = result.cleaned_offset
        checkpoint.write(checkpoint.offsets(directory.logs.values()))
    raise AssertionError("too many passes")
