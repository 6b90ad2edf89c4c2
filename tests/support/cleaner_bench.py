"""A data directory of compacted logs on the disk of this machine, and a cleaner for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from broker.cleaner import Cleaner
from broker.cleaner_job import run_cleaning_job
from broker.clock import ManualClock
from broker.config import CleanerConfig
from broker.metrics import CleanerMetrics
from broker.storage.log_config import CleanupPolicy, LogConfig
from broker.storage.log_directory import LogDirectory
from broker.storage.os_disk import OsDisk
from broker.worker import InlineWorker
from protocol.identifiers import TopicPartition
from protocol.record_batch import iterate_batches, iterate_records
from protocol.stored.file_names import log_file_name
from tests.support.log_storage import NOW_MS, batch

CONFIG = LogConfig(
    cleanup_policy=CleanupPolicy.COMPACT, segment_bytes=300, index_interval_bytes=100
)
FIRST, SECOND = TopicPartition("tide", 0), TopicPartition("tide", 1)


class CleanerBench:
    """A data directory on the disk of this machine, and a cleaner for it."""

    def __init__(self, path, jobs=None, config=CONFIG, **settings) -> None:
        self.clock = ManualClock(NOW_MS)
        self.config = config
        self.directory = LogDirectory.open(
            OsDisk(), path / "data", self.clock, lambda topic: self.config, create=True
        )
        self.threads = ThreadPoolExecutor(1)
        self.jobs = jobs or InlineWorker()
        self.metrics = CleanerMetrics()
        self.settings = CleanerConfig(**{"backoff_ms": 1_000} | settings)
        self.cleaner = self.new_cleaner()

    def new_cleaner(self, job=run_cleaning_job) -> Cleaner:
        return Cleaner(
            [self.directory], self.settings, jobs=self.jobs, executor=self.threads,
            clock=self.clock, metrics=self.metrics, job=job,
        )  # fmt: skip

    def log(self, partition=FIRST, records=30, keys=3):
        """A log of so many records of so many keys."""
        log = self.directory.logs.get(partition)
        if log is None:
            log = self.directory.create_log(partition, UUID(int=7), self.config)
        for number in range(records):
            log.append(batch(b"value%d" % number, key=b"key%d" % (number % keys)))
        log.flush()
        self.directory.checkpoint()
        return log

    def file(self, log, base_offset=0):
        return log.directory / log_file_name(base_offset)

    def close(self) -> None:
        self.directory.close()
        self.threads.shutdown()


def records(log):
    """Offset and key of all that a reader gets."""
    found, offset = [], log.log_start_offset
    while offset < log.high_watermark:
        before = offset
        for piece in log.read(offset, 1 << 20).slices:
            content = piece.read()
            for position, header in iterate_batches(content):
                found += [(each.offset, each.key) for each in iterate_records(content, position)]
                offset = header.next_offset
        assert offset > before
    return found


def is_clean(log) -> bool:
    """No key twice below the active segment."""
    keys = [key for offset, key in records(log) if offset < log.active.base_offset]
    return len(keys) == len(set(keys))
