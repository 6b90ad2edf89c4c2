"""The cleaner while other things happen: retention, deletion, cuts, workers that die."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from broker.cleaner_job import run_cleaning_job
from broker.storage.compactor import CleaningJob, CleaningResult
from broker.storage.log_config import CleanupPolicy
from broker.worker import InlineWorker, WorkerDiedError
from tests.support.cleaner_bench import CONFIG, FIRST, CleanerBench, is_clean, records


@pytest.fixture
def bench(tmp_path):
    made = CleanerBench(tmp_path)
    yield made
    made.close()


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
    bench = CleanerBench(tmp_path, config=config)
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
    bench = CleanerBench(tmp_path, config=config)
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
    has_ended = False

    async def settle(self) -> None:
        self.has_ended = True
        self.late.write_bytes(b"some")


async def test_given_a_worker_that_is_killed_when_it_had_begun_a_file_then_none_is_left(tmp_path):
    bench = CleanerBench(tmp_path, jobs := DyingWorker())
    log = bench.log()
    jobs.late = log.directory / ("0" * 20 + ".index.cleaned")

    def die(job: CleaningJob) -> None:
        (log.directory / ("0" * 20 + ".log.cleaned")).write_bytes(b"some")
        raise WorkerDiedError("a worker died (as the test wants it)")

    meanwhile.append(die)

    assert await bench.new_cleaner(job_with_changes).clean_one()

    assert jobs.has_ended
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
