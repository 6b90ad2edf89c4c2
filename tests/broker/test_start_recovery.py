"""Recovery of many logs at once: which, how far, and what becomes of those whose worker dies."""

import asyncio
from uuid import UUID

import pytest

from broker.metrics import StorageMetrics
from broker.start_recovery import RecoveryProgress, StartRecovery
from broker.storage.log_config import LogConfig
from broker.storage.log_plan import LogPlan, RecoveredFacts, log_sizes
from broker.storage.os_disk import OsDisk
from broker.storage.recovery import Hints
from broker.storage.storage_options import StorageOptions
from broker.worker import InlineWorker, NoWorkerError, WorkerPool
from broker.worker_job import JobStoppedError
from protocol.errors import StorageError
from protocol.identifiers import TopicPartition
from tests.support.unclean_directory import write_log

GIB = 1024**3
UNCLEAN = Hints(is_clean=False, recovery_point=None, log_start_offset=0, durable_offset=None)


def plan_of(directory, number=0, *, tail_bytes=None):
    tail = sum(log_sizes(OsDisk(), directory).values()) if tail_bytes is None else tail_bytes
    partition = TopicPartition("tide", number)
    return LogPlan(directory, partition, UUID(int=7), LogConfig(), UNCLEAN, tail)


@pytest.fixture
def plans(tmp_path):
    """Three logs of 10, 20 and 30 KB."""
    for number in range(3):
        write_log(tmp_path, f"tide-{number}", 10_000 * (number + 1))
    return [plan_of(tmp_path / f"tide-{number}", number) for number in range(3)]


class Recoveries:
    """A StartRecovery with jobs in this process."""

    def __init__(self, jobs=None, *, in_process_bytes_max=0):
        self.jobs = jobs or InlineWorker()
        self.metrics, self.told = StorageMetrics(), []
        self.recovery = StartRecovery(
            monotonic=lambda: 0.0, metrics=self.metrics, tell=self.told.append, jobs=self.jobs,
            in_process_bytes_max=in_process_bytes_max,
        )  # fmt: skip

    async def run(self, plans):
        return await self.recovery.run(plans, StorageOptions())


async def test_given_logs_with_tails_when_run_then_there_are_facts_of_each_largest_first(plans):
    recoveries = Recoveries()

    facts = await recoveries.run(plans)

    assert {path.name: each.log_end_offset for path, each in facts.items()} == {
        "tide-0": 144, "tide-1": 289, "tide-2": 434,
    }  # fmt: skip
    assert [arguments[1].topic_partition.partition for _, arguments in recoveries.jobs.jobs] == [
        2, 1, 0,
    ]  # fmt: skip
    assert recoveries.metrics.recovered_logs == recoveries.metrics.recovery_logs == 3
    assert recoveries.metrics.recovered_bytes == recoveries.metrics.recovery_bytes > 59_000


async def test_given_little_in_all_when_run_then_it_is_left_to_the_broker(plans):
    recoveries = Recoveries(in_process_bytes_max=60_000)

    assert await recoveries.run(plans) == {}

    assert recoveries.jobs.jobs == []


async def test_given_a_log_without_a_tail_when_run_then_no_job_is_made_of_it(plans):
    recoveries = Recoveries()

    await recoveries.run([plans[0], plans[1]._replace(tail_bytes=0)])

    assert len(recoveries.jobs.jobs) == 1


async def test_given_a_worker_that_dies_when_run_then_its_log_is_tried_again(plans):
    recoveries = Recoveries()
    recoveries.jobs.deaths = 1

    facts = await recoveries.run(plans)

    assert [type(each) for each in facts.values()] == [RecoveredFacts] * 3
    assert len(recoveries.jobs.jobs) == 4
    assert recoveries.metrics.recovered_logs == 3


async def test_given_a_log_that_kills_every_worker_when_run_then_it_alone_is_given_up(plans):
    recoveries = Recoveries()
    recoveries.jobs.deaths = 2

    facts = await recoveries.run(plans)

    assert "died 2 times" in str(facts[plans[2].directory])
    assert isinstance(facts[plans[2].directory], StorageError)
    assert isinstance(facts[plans[0].directory], RecoveredFacts)
    assert recoveries.metrics.recovered_logs == 3


async def test_given_a_log_that_cannot_be_read_when_run_then_that_is_said_of_it(plans, tmp_path):
    (tmp_path / "tide-1" / "00000000000000000000.log").unlink()
    (tmp_path / "tide-1" / "00000000000000000000.log").mkdir()

    facts = await Recoveries().run(plans)

    assert isinstance(facts[tmp_path / "tide-1"], StorageError)
    assert isinstance(facts[tmp_path / "tide-2"], RecoveredFacts)


class NoWorkers(InlineWorker):
    async def run(self, function, *args, on_progress=None):
        raise NoWorkerError("no processes here")


async def test_given_no_processes_when_run_then_all_is_left_to_the_broker(plans):
    assert await Recoveries(NoWorkers()).run(plans) == {}


class Broken(InlineWorker):
    def __init__(self, error):
        super().__init__()
        self.error = error

    async def run(self, function, *args, on_progress=None):
        raise self.error


async def test_given_a_failed_sync_when_run_then_the_start_fails(plans):
    with pytest.raises(OSError, match="sync"):
        await Recoveries(Broken(OSError(5, "the sync failed"))).run(plans)


async def test_given_a_bug_that_a_log_meets_when_run_then_it_is_given_up_and_the_others_start(
    plans,
):
    facts = await Recoveries(Broken(KeyError("x"))).run(plans)

    assert all(isinstance(each, StorageError) for each in facts.values())


async def test_given_a_job_that_is_told_to_stop_when_it_reads_then_it_ends_without_a_result(plans):
    jobs = InlineWorker()
    jobs.should_stop = True

    with pytest.raises(JobStoppedError):
        await Recoveries(jobs).run(plans)


def test_given_progress_when_told_then_it_says_what_is_done_and_what_is_left(tmp_path):
    metrics = StorageMetrics()
    plans = [plan_of(tmp_path / str(n), n, tail_bytes=(n + 1) * GIB) for n in range(3)]
    progress = RecoveryProgress(plans, metrics, started_s=100.0)

    assert progress.text(100.0) == "recovering: 0 of 3 partitions, 0.0 of 6.0 GiB"
    progress.note(plans[2].directory, GIB)
    progress.note_done(plans[0].directory)

    assert progress.text(110.0) == (
        "recovering: 1 of 3 partitions, 2.0 of 6.0 GiB, about 20 s left"
    )
    progress.note(plans[2].directory, 10 * GIB)  # damage is looked at twice
    assert metrics.recovered_bytes == 4 * GIB


async def test_given_real_workers_when_run_then_all_logs_are_recovered_in_them(tmp_path):
    counts = [write_log(tmp_path, f"tide-{number}", 300_000) for number in range(5)]
    plans = [plan_of(tmp_path / f"tide-{number}", number) for number in range(5)]
    pool = WorkerPool(2, niceness=0)
    recoveries = Recoveries(pool)

    facts = await asyncio.wait_for(recoveries.run(plans), 60)

    assert [facts[plan.directory].log_end_offset for plan in plans] == counts
    assert recoveries.told[0].startswith("recovering: 0 of 5 partitions")
    assert pool.process_ids == []
