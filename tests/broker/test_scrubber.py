"""The scrubber over whole logs: what becomes of findings, and what does not end it."""

import asyncio
from uuid import UUID

import pytest

from broker.clock import ManualClock
from broker.metrics import ScrubMetrics
from broker.scrubber import Scrubber
from broker.storage.log_config import LogConfig
from broker.storage.log_directory import LogDirectory
from broker.storage.os_disk import OsDisk
from broker.worker import InlineWorker, WorkerDiedError, WorkerPool
from protocol.errors import CorruptMessageError, StorageError
from protocol.identifiers import TopicPartition
from tests.support.log_storage import NOW_MS, batch

BATCH_BYTES = 70
CONFIG = LogConfig(segment_bytes=7_000, index_interval_bytes=500, segment_index_bytes=4_096)
TIDE = TopicPartition("tide", 0)


class Job(InlineWorker):
    """Looks in this process; `meanwhile` is what happens to the log before each answer."""

    def __init__(self):
        super().__init__()
        self.meanwhile = []
        self.errors = []

    async def run(self, function, *args, on_progress=None):
        if self.errors:
            raise self.errors.pop(0)
        result = await super().run(function, *args, on_progress=on_progress)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return result

    @property
    def looks(self):
        return [(plan.base_offset, plan.is_second_look) for _, (plan, _) in self.jobs]


class Scrubbing:
    """A log of 250 batches in three segments, on a real disk, and a scrubber over it."""

    def __init__(self, path, job=None):
        self.clock = ManualClock(NOW_MS)
        self.directory = LogDirectory.open(
            OsDisk(), path, self.clock, lambda topic: CONFIG, create=True
        )
        self.log = self.directory.create_log(TIDE, UUID(int=7), CONFIG)
        for number in range(250):
            self.log.append(batch(b"%d" % (number % 10), timestamp=NOW_MS + number))
        self.log.flush()
        self.job, self.metrics = job or Job(), ScrubMetrics()
        self.scrubber = Scrubber(
            [self.directory], 1 << 60, jobs=self.job, clock=self.clock, metrics=self.metrics,
            shuffle=lambda logs: None,
        )  # fmt: skip

    def path(self, name):
        return self.log.directory / name

    def damage(self, offset):
        base = offset - offset % 100
        with self.path(f"{base:020d}.log").open("r+b") as file:
            file.seek((offset - base) * BATCH_BYTES + 65)
            file.write(b"\xff")


@pytest.fixture
def scrubbing(tmp_path):
    scrubbing = Scrubbing(tmp_path / "data")
    yield scrubbing
    scrubbing.directory.close(clean=False)


async def test_given_sound_logs_when_scrubbed_then_the_newest_segment_comes_first(scrubbing):
    await scrubbing.scrubber.scrub_all()

    assert scrubbing.job.looks == [(200, False), (100, False), (0, False)]
    metrics = scrubbing.metrics
    assert (metrics.rounds, metrics.findings, metrics.failures) == (1, 0, 0)
    assert metrics.bytes_read >= 250 * BATCH_BYTES
    assert metrics.last_round_ms == scrubbing.clock.now_ms()


async def test_given_damage_when_scrubbed_then_it_is_reported_like_recoverys(scrubbing):
    scrubbing.damage(130)

    await scrubbing.scrubber.scrub_all()

    log = scrubbing.log
    assert [each.first_offset for each in log.damage] == [130]
    assert log.recovery_point == 100
    assert scrubbing.metrics.findings == 1
    with pytest.raises(CorruptMessageError):
        log.read(130, 1)
    assert log.read(131, 1).size_bytes == BATCH_BYTES
    assert list(log.directory.glob("*.quarantine"))


async def test_given_known_damage_when_scrubbed_again_then_it_is_not_reported_again(scrubbing):
    scrubbing.damage(130)
    await scrubbing.scrubber.scrub_all()
    looks = len(scrubbing.job.looks)

    await scrubbing.scrubber.scrub_all()

    assert scrubbing.metrics.findings == 1
    assert len(scrubbing.job.looks) == looks + 3  # no second look


async def test_given_damage_that_a_second_look_does_not_find_then_it_is_not_reported(scrubbing):
    sound = scrubbing.path("00000000000000000100.log").read_bytes()
    scrubbing.damage(130)

    def mend():
        with scrubbing.path("00000000000000000100.log").open("r+b") as file:
            file.write(sound)

    scrubbing.job.meanwhile = [lambda: None, mend]

    await scrubbing.scrubber.scrub_all()

    assert (100, True) in scrubbing.job.looks
    assert list(scrubbing.log.damage) == []


@pytest.mark.parametrize("look", [1, 2])
async def test_given_a_log_that_is_cut_while_it_is_looked_at_then_nothing_is_reported(
    scrubbing, look
):
    scrubbing.damage(230)
    nothing = [lambda: None] * (look - 1)
    scrubbing.job.meanwhile = [*nothing, lambda: scrubbing.log.truncate_to(210)]

    await scrubbing.scrubber.scrub_all()

    assert list(scrubbing.log.damage) == []
    assert scrubbing.metrics.findings == 0


async def test_given_a_log_that_is_deleted_while_it_is_looked_at_then_the_round_goes_on(scrubbing):
    scrubbing.job.meanwhile = [lambda: scrubbing.directory.delete_log(TIDE)]

    await scrubbing.scrubber.scrub_all()

    assert scrubbing.job.looks == [(200, False)]
    assert (scrubbing.metrics.failures, scrubbing.metrics.rounds) == (0, 1)


async def test_given_unflushed_bytes_when_scrubbed_then_they_are_not_looked_at(scrubbing):
    scrubbing.log.append(batch(b"x"))
    scrubbing.damage(250)

    await scrubbing.scrubber.scrub_all()

    assert list(scrubbing.log.damage) == []


async def test_given_a_wrong_index_when_scrubbed_then_its_next_use_builds_it_anew(scrubbing):
    index = scrubbing.path("00000000000000000100.index")
    right = index.read_bytes()
    index.write_bytes(right[:3] + b"\x55" + right[4:])

    await scrubbing.scrubber.scrub_all()

    assert scrubbing.metrics.index_findings == 1
    await scrubbing.scrubber.scrub_all()
    assert scrubbing.metrics.index_findings == 1  # said once
    assert scrubbing.log.read(150, 1).size_bytes == BATCH_BYTES
    assert index.read_bytes() == right


async def test_given_a_segment_that_cannot_be_read_when_scrubbed_then_the_others_are(scrubbing):
    scrubbing.job.errors = [StorageError("the disk refused")]

    await scrubbing.scrubber.scrub_all()

    assert scrubbing.metrics.failures == 1
    assert scrubbing.job.looks == [(100, False), (0, False)]


async def test_given_a_worker_that_dies_when_scrubbed_then_the_others_are_looked_at(
    scrubbing, monkeypatch
):
    monkeypatch.setattr("broker.scrubber.FAILURE_PAUSE_S", 0.0)
    scrubbing.job.errors = [WorkerDiedError("killed")]

    await scrubbing.scrubber.scrub_all()

    assert scrubbing.metrics.failures == 1
    assert scrubbing.job.looks == [(100, False), (0, False)]


async def test_given_a_bug_when_it_runs_then_it_goes_on_and_can_be_ended(scrubbing, monkeypatch):
    monkeypatch.setattr("broker.scrubber.FAILURE_PAUSE_S", 0.0)
    monkeypatch.setattr("broker.scrubber.ROUND_INTERVAL_S", 0.0)
    scrubbing.job.errors = [KeyError("a bug"), KeyError("another")]
    done = asyncio.Event()
    scrubbing.job.meanwhile = [lambda: None] * 2 + [done.set]

    scrubbing.scrubber.start()
    await asyncio.wait_for(done.wait(), 30)
    await scrubbing.scrubber.close()

    assert scrubbing.metrics.failures == 2


async def test_given_a_real_worker_when_scrubbed_then_damage_is_found_and_files_stay_as_they_are(
    tmp_path,
):
    pool = WorkerPool()
    scrubbing = Scrubbing(tmp_path / "data", pool)
    scrubbing.damage(130)
    files = {each: each.read_bytes() for each in scrubbing.log.directory.iterdir()}

    await scrubbing.scrubber.scrub_all()
    await pool.close()

    assert [each.first_offset for each in scrubbing.log.damage] == [130]
    assert scrubbing.metrics.findings == 1
    assert {each: each.read_bytes() for each in files} == files
    scrubbing.directory.close(clean=False)
