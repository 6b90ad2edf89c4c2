"""Segments for tests: a place to make them, batches to fill them, and what a full scan answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from broker.clock import ManualClock
from broker.storage.disk import Disk
from broker.storage.file_handles import FileHandles
from broker.storage.index_cache import IndexCache
from broker.storage.log_config import LogConfig
from broker.storage.segment import LogSegment
from protocol.compression import Codec
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from tests.support.fake_disk import FakeDisk

DIRECTORY = Path("/topic-0")
CONFIG = LogConfig(index_interval_bytes=150, segment_index_bytes=4096)
"""An index entry for every second or third of the small batches below."""


class Batch(NamedTuple):
    """One batch, and what a scan must know of it."""

    data: bytes
    base_offset: int
    last_offset: int
    timestamps: tuple[int, ...]
    """One for each record; their offsets have no gaps."""

    @property
    def max_timestamp(self) -> int:
        return max(self.timestamps)

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1


@dataclass
class Workbench:
    """A disk, and all else that a segment needs; a fresh cache for every opening."""

    disk: Disk = field(default_factory=FakeDisk)
    directory: Path = DIRECTORY
    config: LogConfig = CONFIG
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.handles = FileHandles(self.disk)
        self.cache = IndexCache()
        if not self.disk.is_directory(self.directory):
            self.disk.make_directory(self.directory)
            self.disk.sync_directory(self.directory.parent)

    def create(self, base_offset: int = 0, **options: object) -> LogSegment:
        """Make an active segment."""
        return self.open(base_offset, create=True, active=True, **options)

    def open(self, base_offset: int = 0, **options: object) -> LogSegment:
        """Open a segment, by default a sealed one; `jitter` is 0 unless told."""
        self.cache = IndexCache()
        options = {"jitter": lambda: 0.0, **options}
        return LogSegment.open(
            self.handles, self.directory, base_offset, self.config, self.clock,
            index_cache=self.cache, **options,
        )  # type: ignore[arg-type]  # fmt: skip

    def closed(self, batches: Sequence[Batch], base_offset: int = 0) -> None:
        """Leave a segment of these batches on the disk, as a clean stop does."""
        segment = self.create(base_offset)
        fill(segment, batches)
        segment.seal()
        segment.close()

    def crash(self) -> None:
        """Cut the power: what was not synced is lost, and every open file with it."""
        assert isinstance(self.disk, FakeDisk)
        self.disk.crash()
        self.handles = FileHandles(self.disk)

    def path(self, suffix: str, base_offset: int = 0) -> Path:
        return self.directory / f"{base_offset:020d}{suffix}"

    def overwrite(self, path: Path, data: bytes) -> None:
        """Give a file other contents, behind everybody's back."""
        self.handles.forget(path)
        file = self.disk.open(path, create=True)
        file.truncate(0)
        file.write([data], 0)
        file.close()


def batch(
    base_offset: int, timestamps: Sequence[int], value: bytes = b"v" * 20, codec: Codec = Codec.NONE
) -> Batch:
    """Build a batch with a record for each timestamp."""
    records = [
        Record(base_offset + number, timestamp, None, value)
        for number, timestamp in enumerate(timestamps)
    ]
    data = build_batch(records, base_offset=base_offset, codec=codec)
    return Batch(bytes(data), base_offset, base_offset + len(records) - 1, tuple(timestamps))


def run(
    count: int, base_offset: int = 0, *, records: int = 2, start_ms: int = 1_000, step_ms: int = 10
) -> list[Batch]:
    """Build batches one after the other, each later than the one before."""
    return [
        batch(
            base_offset + number * records,
            [start_ms + number * step_ms + each for each in range(records)],
        )
        for number in range(count)
    ]


@st.composite
def batch_lists(draw: st.DrawFn, base_offset: int, *, max_size: int = 40) -> list[Batch]:
    """Batches with gaps between their offsets and timestamps in any order."""
    result: list[Batch] = []
    offset = base_offset
    shapes = draw(
        st.lists(
            st.tuples(
                st.sampled_from([0, 0, 0, 1, 7]),
                st.lists(st.integers(1_700_000_000_000, 1_700_086_400_000), min_size=1, max_size=3),
                st.integers(0, 60),
            ),
            min_size=1,
            max_size=max_size,
        )
    )
    for gap, timestamps, value_bytes in shapes:
        result.append(batch(offset + gap, timestamps, b"v" * value_bytes))
        offset = result[-1].next_offset
    return result


def fill(segment: LogSegment, batches: Sequence[Batch]) -> list[int]:
    """Append each batch; return their positions."""
    return [
        segment.append(
            each.last_offset, each.max_timestamp, each.last_offset, [each.data], len(each.data)
        )
        for each in batches
    ]


def positions(batches: Sequence[Batch]) -> list[int]:
    """Where each batch starts in a segment that holds nothing else."""
    result, position = [], 0
    for each in batches:
        result.append(position)
        position += len(each.data)
    return result


def scan_for_offset(batches: Sequence[Batch], offset: int) -> tuple[int, int, int] | None:
    """What `translate_offset` must answer: base offset, position, size."""
    for each, position in zip(batches, positions(batches), strict=True):
        if each.last_offset >= offset:
            return each.base_offset, position, len(each.data)
    return None


def scan_for_timestamp(
    batches: Sequence[Batch], timestamp_ms: int, from_offset: int = 0
) -> tuple[int, int] | None:
    """What `offset_for_timestamp` must answer: timestamp, offset."""
    for each in batches:
        for offset, timestamp in enumerate(each.timestamps, each.base_offset):
            if timestamp >= timestamp_ms and offset >= from_offset:
                return timestamp, offset
    return None


def interesting_timestamps(batches: Sequence[Batch]) -> list[int]:
    """Every timestamp, and those beside it."""
    near = {t + step for each in batches for t in each.timestamps for step in (-1, 0, 1)}
    return sorted(near)
