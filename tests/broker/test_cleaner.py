"""The cleaner: which log, when; failures and retries; in this process and in a worker."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from broker.cleaner import Cleaner
from broker.cleaner_job import run_cleaning_job
from broker.clock import ManualClock
from broker.config import CleanerConfig
from broker.metrics import CleanerMetrics
from broker.storage.compactor import CleaningJob, CleaningResult
from broker.storage.log_config import CleanupPolicy, LogConfig
from broker.storage.log_directory import LogDirectory
from broker.storage.os_disk import OsDisk
from broker.worker import InlineWorker, WorkerDiedError, WorkerPool
from protocol.identifiers import TopicPartition
from protocol.record_batch import iterate_batches, iterate_records
from protocol.stored.checkpoint import offset_checkpoint_decode
from protocol.stored.file_names import CLEANER_CHECKPOINT, log_file_name
from tests.support.log_storage import NOW_MS, batch

CONFIG = LogConfig(
    cleanup_policy=CleanupPolicy.COMPACT, segment_bytes=300, index_interval_bytes=100
)
FIRST, SECOND = TopicPartition("tide", 0), TopicPartition("tide", 1)


class Bench:
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


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.close()


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


async def test_given_a_dirty_log_when_cleaned_then_keys_are_there_once_and_it_is_checkpointed(
    bench,
):
    log = bench.log()

    assert await bench.cleaner.clean_one()

    assert is_clean(log)
    content = (bench.directory.path / CLEANER_CHECKPOINT).read_bytes()
    assert offset_checkpoint_decode(content) == {FIRST: log.active.base_offset}
    metrics = bench.metrics
    assert metrics.passes == 1
    assert metrics.records_read == log.active.base_offset > metrics.records_kept == 3
    assert metrics.bytes_read > metrics.bytes_written > 0
    assert not await bench.cleaner.clean_one()
    assert metrics.backlog_bytes == {FIRST: 0}
    assert metrics.dirty_ratio_max == 0


async def test_given_a_small_map_when_cleaned_then_as_many_passes_are_made_as_it_takes(tmp_path):
    bench = Bench(tmp_path, dedupe_buffer_bytes=1024)  # 38 keys
    log = bench.log(records=120, keys=60)

    assert await bench.cleaner.clean_one()

    assert is_clean(log)
    assert bench.metrics.passes > 2
    bench.close()


async def test_given_a_checkpoint_when_started_anew_then_it_goes_on_from_there(bench):
    bench.log()
    await bench.cleaner.clean_one()
    bench.directory.close()
    bench.directory = LogDirectory.open(
        OsDisk(), bench.directory.path, bench.clock, lambda topic: bench.config
    )

    cleaner = bench.new_cleaner()

    assert not await cleaner.clean_one()
    bench.log(records=60)
    assert await cleaner.clean_one()
    assert bench.jobs.jobs[-1][1][0].first_dirty_offset > 0


@pytest.mark.parametrize("policy", [CleanupPolicy.DELETE, CleanupPolicy.COMPACT_DELETE])
async def test_given_a_policy_when_looked_at_then_only_compacted_logs_are_cleaned(bench, policy):
    bench.config = msgspec.structs.replace(CONFIG, cleanup_policy=policy)
    bench.log()

    assert await bench.cleaner.clean_one() is policy.compacts


async def test_given_two_logs_when_cleaned_then_the_dirtier_one_comes_first(bench):
    bench.log(FIRST)
    bench.log(SECOND)
    await bench.cleaner.clean_one()
    await bench.cleaner.clean_one()
    first, second = bench.log(FIRST, records=10), bench.log(SECOND, records=60)

    assert await bench.cleaner.clean_one()

    directories = [job[0].directory for _, job in bench.jobs.jobs]
    assert directories[-1] == str(second.directory)
    assert bench.metrics.backlog_bytes.keys() == {FIRST, SECOND}
    del first


async def test_given_damage_when_cleaned_then_it_is_reported_others_go_on_and_it_is_retried(bench):
    """B18, KIP-346: nothing is lost, the cleaner lives, and what is mended gets clean."""
    log, other = bench.log(FIRST), bench.log(SECOND)
    sound = bench.file(log).read_bytes()
    bench.file(log).write_bytes(sound[:100] + bytes([sound[100] ^ 1]) + sound[101:])

    while await bench.cleaner.clean_one():
        pass

    assert is_clean(other)
    assert bench.metrics.failures == 1
    assert bench.metrics.uncleanable_logs == 1
    assert bench.file(log).read_bytes()[:100] == sound[:100]
    assert not [path for path in log.directory.iterdir() if "cleaned" in path.name]
    bench.file(log).write_bytes(sound)
    assert not await bench.cleaner.clean_one()
    bench.clock.advance(ms=2_000)
    assert await bench.cleaner.clean_one()
    assert is_clean(log)
    assert bench.metrics.uncleanable_logs == 0


async def test_given_failures_in_a_row_when_retried_then_each_waits_twice_as_long(bench):
    log = bench.log()
    bench.jobs.deaths = 3
    waits = []

    while not is_clean(log):
        seconds = 0
        while not await bench.cleaner.clean_one():
            bench.clock.advance(ms=1_000)
            seconds += 1
        waits.append(seconds)

    assert waits == [0, 2, 4, 8]
    assert bench.metrics.failures == 3
    assert bench.metrics.uncleanable_logs == 0


async def test_given_an_error_of_its_own_when_running_then_the_cleaner_goes_on(bench):
    log = bench.log()
    calls = []

    def plan(directory, log):
        calls.append(log)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        return real(directory, log)

    real, bench.cleaner._plan = bench.cleaner._plan, plan
    bench.cleaner._config = CleanerConfig(backoff_ms=100)

    bench.cleaner.start()
    while not is_clean(log):
        await asyncio.sleep(0.01)
    await bench.cleaner.close()

    assert bench.metrics.failures == 1


async def test_given_worker_processes_when_cleaned_then_it_is_as_in_this_one(tmp_path):
    bench = Bench(tmp_path, WorkerPool())
    log = bench.log(records=200, keys=7)

    assert await bench.cleaner.clean_one()
    await bench.jobs.close()

    assert is_clean(log)
    bench.close()


async def test_given_a_throttled_pass_when_closed_then_it_stops_and_nothing_is_lost(tmp_path):
    bench = Bench(tmp_path, WorkerPool(), io_bytes_per_second=1)
    log = bench.log(records=200)
    before = records(log)
    bench.cleaner.start()
    while not bench.metrics.is_running:
        await asyncio.sleep(0.01)

    await bench.cleaner.close()
    await bench.jobs.close()

    assert records(log) == before
    assert bench.metrics.failures == 0
    bench.close()


async def test_given_a_log_deleted_meanwhile_when_a_pass_runs_then_it_is_no_failure(tmp_path):
    bench = Bench(tmp_path, WorkerPool(), io_bytes_per_second=100_000)
    bench.log(records=300)
    bench.cleaner.start()
    while not bench.metrics.is_running:
        await asyncio.sleep(0.01)

    bench.directory.delete_log(FIRST)
    while bench.metrics.is_running:
        await asyncio.sleep(0.01)

    assert bench.metrics.failures == 0
    await bench.cleaner.close()
    await bench.jobs.close()
    bench.close()


meanwhile = []
"""What happens while the next pass runs, before its result is known."""


def job_with_changes(job: CleaningJob) -> CleaningResult:
    for change in (*meanwhile,):
        meanwhile.remove(change)
        change(job)
    return run_cleaning_job(job)


async def test_given_retention_while_a_pass_runs_when_it_ends_then_neither_has_waited(tmp_path):
    """However long the pass: files that are gone when their turn comes are left out."""
    config = msgspec.structs.replace(CONFIG, cleanup_policy=CleanupPolicy.COMPACT_DELETE)
    bench = Bench(tmp_path, config=config)
    log = bench.log(records=40)
    bases = log.segments.base_offsets

    def retention(job: CleaningJob) -> None:
        log.advance_log_start(bases[3])
        assert log.delete_old_segments(bench.clock.now_ms()) == 3
        bench.directory.checkpoint()  # and they have other names

    meanwhile.append(retention)

    assert await bench.new_cleaner(job_with_changes).clean_one()

    assert not bench.file(log, 0).exists()
    assert log.log_start_offset == bases[3]
    assert is_clean(log)
    assert bench.metrics.failures == 0
    assert bench.metrics.passes == 1
    bench.close()


async def test_given_a_file_that_goes_in_the_middle_when_it_was_retention_then_it_begins_anew(
    tmp_path,
):
    config = msgspec.structs.replace(CONFIG, cleanup_policy=CleanupPolicy.COMPACT_DELETE)
    bench = Bench(tmp_path, config=config)
    log = bench.log(records=40)
    bases = log.segments.base_offsets

    def retention(job: CleaningJob) -> None:
        log.advance_log_start(bases[3])
        log.delete_old_segments(bench.clock.now_ms())
        raise FileNotFoundError(2, "No such file or directory", str(bench.file(log)))

    meanwhile.append(retention)
    cleaner = bench.new_cleaner(job_with_changes)

    assert await cleaner.clean_one()
    assert bench.metrics.failures == 0
    assert await cleaner.clean_one()
    assert is_clean(log)
    bench.close()


async def test_given_a_lost_file_when_cleaned_then_it_is_a_failure_and_the_log_as_it_was(bench):
    log = bench.log(records=40)
    lost = bench.file(log, log.segments.base_offsets[2])
    aside = lost.rename(lost.with_name("aside"))

    assert await bench.cleaner.clean_one()

    assert bench.metrics.failures == 1
    assert not [path for path in log.directory.iterdir() if "cleaned" in path.name]
    aside.rename(lost)
    assert len(records(log)) == 40


class DyingWorker(InlineWorker):
    """Writes a file until it has ended for certain, for which one has to wait."""

    late: Path

    async def settle(self) -> None:
        self.late.write_bytes(b"some")


async def test_given_a_worker_that_is_killed_when_it_had_begun_a_file_then_none_is_left(tmp_path):
    bench = Bench(tmp_path, jobs := DyingWorker())
    log = bench.log()
    jobs.late = log.directory / ("0" * 20 + ".index.cleaned")

    def die(job: CleaningJob) -> None:
        (log.directory / ("0" * 20 + ".log.cleaned")).write_bytes(b"some")
        raise WorkerDiedError("a worker died (as the test wants it)")

    meanwhile.append(die)

    assert await bench.new_cleaner(job_with_changes).clean_one()

    assert bench.metrics.failures == 1
    assert not [path for path in log.directory.iterdir() if "cleaned" in path.name]
    bench.close()


async def test_given_a_topic_made_anew_meanwhile_when_the_pass_ends_then_its_log_has_no_strays(
    bench,
):
    """What a worker writes goes by name: into the directory of the new log."""
    bench.log()
    made = []

    def make_anew(job: CleaningJob) -> None:
        bench.directory.delete_log(FIRST)
        made.append(bench.log(records=40))

    meanwhile.append(make_anew)

    assert await bench.new_cleaner(job_with_changes).clean_one()

    assert not [path for path in made[0].directory.iterdir() if "cleaned" in path.name]
    assert len(records(made[0])) == 40
    assert bench.metrics.failures == 0


async def test_given_a_cut_when_a_pass_has_put_all_in_place_then_it_does_not_count_as_clean(bench):
    log = bench.log()
    real = bench.cleaner._put_in_place

    async def put_in_place(log, job):
        result = await real(log, job)
        log.truncate_to(5)
        return result

    bench.cleaner._put_in_place = put_in_place

    assert await bench.cleaner.clean_one()

    assert log.cleaning.cleaned_offset is None
