"""The cleaner: which log, when; failures and retries; in this process and in a worker."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from broker.config import CleanerConfig
from broker.storage.log_config import CleanupPolicy
from broker.storage.log_directory import LogDirectory
from broker.storage.os_disk import OsDisk
from broker.worker import WorkerPool
from protocol.stored.checkpoint import offset_checkpoint_decode
from protocol.stored.file_names import CLEANER_CHECKPOINT
from tests.support.cleaner_bench import CONFIG, FIRST, SECOND, CleanerBench, is_clean, records


@pytest.fixture
def bench(tmp_path):
    made = CleanerBench(tmp_path)
    yield made
    made.close()


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
    bench = CleanerBench(tmp_path, dedupe_buffer_bytes=1024)  # 38 keys
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
    bench = CleanerBench(tmp_path, WorkerPool())
    log = bench.log(records=200, keys=7)

    assert await bench.cleaner.clean_one()
    await bench.jobs.close()

    assert is_clean(log)
    bench.close()


async def test_given_a_throttled_pass_when_closed_then_it_stops_and_nothing_is_lost(tmp_path):
    bench = CleanerBench(tmp_path, WorkerPool(), io_bytes_per_second=1)
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
    bench = CleanerBench(tmp_path, WorkerPool(), io_bytes_per_second=100_000)
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
