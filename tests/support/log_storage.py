"""A data directory on a fake disk with a clock that stands still: what tests of logs start from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from uuid import UUID

from broker.clock import ManualClock
from broker.storage.log_config import LogConfig
from broker.storage.log_directory import LogDirectory
from broker.storage.log_reader import ReadLimit
from broker.storage.offset_metadata import FetchData
from broker.storage.partition_log import PartitionLog
from broker.storage.storage_options import StorageOptions
from protocol.compression import Codec
from protocol.identifiers import TopicPartition
from protocol.record_batch import iterate_batches, iterate_records
from protocol.record_batch_builder import build_batch
from tests.support.fake_disk import FakeDisk

ROOT = Path("/data")
PARTITION = TopicPartition("tide", 0)
TOPIC_ID = UUID(int=0x7ADE)
NOW_MS = 1_700_000_000_000

SMALL_SEGMENTS = LogConfig(segment_bytes=280, index_interval_bytes=100, segment_index_bytes=240)
"""A segment holds four batches of one record of one byte (70 bytes each)."""


def batch(
    *values: bytes | None,
    timestamp: int = NOW_MS,
    codec: Codec = Codec.NONE,
    key: bytes | None = b"k",
) -> memoryview:
    """A produced record batch, writable, of records with these values."""
    records = [(number, timestamp, key, value) for number, value in enumerate(values)]
    return memoryview(bytearray(build_batch(records, codec=codec)))


def batches(*sets: Sequence[bytes]) -> memoryview:
    """A set of several batches, writable."""
    return memoryview(bytearray(b"".join(batch(*values) for values in sets)))


def records_in(data: Iterable[bytes]) -> list[tuple[int, bytes | None]]:
    """Offset and value of each record in whole batches."""
    return [
        (record.offset, record.value)
        for piece in data
        for position, _ in iterate_batches(piece)
        for record in iterate_records(piece, position)
    ]


def records_of(data: FetchData) -> list[tuple[int, bytes | None]]:
    """Offset and value of each record that a read answered."""
    return records_in(piece.read() for piece in data.slices)


class LogStorage:
    """One data directory and one partition in it."""

    def __init__(
        self,
        config: LogConfig | None = None,
        *,
        options: StorageOptions | None = None,
        seed: int = 0,
        disk: FakeDisk | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        """Without `disk` it is an empty one."""
        self.clock = clock if clock is not None else ManualClock(NOW_MS)
        self.disk = disk if disk is not None else FakeDisk(clock=self.clock, seed=seed)
        self.config = config if config is not None else LogConfig()
        self.options = options if options is not None else StorageOptions()
        self.directory = self.open()
        if PARTITION not in self.directory.logs:
            self.directory.create_log(PARTITION, TOPIC_ID, self.config)

    def open(self) -> LogDirectory:
        """Open the directory, again or for the first time."""
        self.directory = LogDirectory.open(
            self.disk,
            ROOT,
            self.clock,
            lambda topic: self.config,
            self.options,
            topic_id_of=lambda topic: TOPIC_ID,
            create=True,
        )
        return self.directory

    @property
    def log(self) -> PartitionLog:
        return self.directory.logs[PARTITION]

    @property
    def path(self) -> Path:
        """The partition's directory."""
        return ROOT / str(PARTITION)

    def append(self, *values: bytes) -> int:
        """Append one batch; return its first offset."""
        return self.log.append(batch(*values, timestamp=self.clock.now_ms())).first_offset

    def flush(self) -> None:
        """One group of group commit, as the flusher does it."""
        self.log.flush()
        self.directory.durable_offsets.write()

    def crash(self, random: Random | None = None) -> PartitionLog:
        """Cut the power, start again, return the log."""
        self.disk.crash(random)
        return self.restarted()

    def kill(self) -> PartitionLog:
        """Kill -9, start again, return the log."""
        self.disk.kill()
        return self.restarted()

    def restart(self) -> PartitionLog:
        """Stop in order, start again, return the log."""
        self.directory.close()
        return self.restarted()

    def restarted(self) -> PartitionLog:
        """Start; make what a crash before the first flush has taken, as the topic registry does."""
        self.open()
        if PARTITION not in self.directory.logs:
            self.directory.create_log(PARTITION, TOPIC_ID, self.config)
        return self.log

    def records(self, *, limit: ReadLimit = ReadLimit.HIGH_WATERMARK) -> list[tuple[int, bytes]]:
        """Every record from the log start to the limit, as a consumer reads them."""
        log = self.log
        found: list[tuple[int, bytes]] = []
        offset = log.log_start_offset
        while True:
            data = log.read(offset, 1 << 20, limit=limit)
            records = [each for each in records_of(data) if each[0] >= offset]
            if not records:
                return found
            found += [(number, value or b"") for number, value in records]
            offset = records[-1][0] + 1

    def names(self) -> list[str]:
        """The files in the partition's directory."""
        return self.disk.list_directory(self.path)

    def check_invariants(self) -> None:
        """What holds at all times (design, "Words")."""
        log = self.log
        assert 0 <= log.log_start_offset <= log.last_stable_offset
        assert log.last_stable_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.durable_offset <= log.log_end_offset
        if log.config.flush_policy.value == "commit":
            assert log.high_watermark <= max(log.durable_offset, log.log_start_offset)
