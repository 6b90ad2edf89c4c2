"""Cleaner and scrubber begin when clients are served, if at all, and end with the broker."""

import asyncio

import msgspec
import pytest

from broker import late_work
from broker.clock import ManualClock
from broker.config import CleanerConfig, Config, StorageConfig
from broker.late_work import LateWork
from broker.metrics import Metrics


def work(*, cleaner, scrub_bytes_per_second):
    config = msgspec.structs.replace(
        Config(),
        cleaner=CleanerConfig(enabled=cleaner),
        storage=StorageConfig(scrub_bytes_per_second=scrub_bytes_per_second),
    )
    return LateWork(
        [], config, clock=ManualClock(), metrics=Metrics(), make_threads=lambda count, name: None
    )


def tasks_of_late_work():
    return {task.get_coro().__name__ for task in asyncio.all_tasks()} & {
        "_begin_cleaning", "_begin_scrubbing",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("cleaner", "rate", "begun"),
    [
        (False, 0, set()),
        (True, 0, {"_begin_cleaning"}),
        (False, 1, {"_begin_scrubbing"}),
        (True, 1, {"_begin_cleaning", "_begin_scrubbing"}),
    ],
)
async def test_given_settings_when_begun_then_only_what_is_wanted_is(cleaner, rate, begun):
    late = work(cleaner=cleaner, scrub_bytes_per_second=rate)

    late.begin()

    assert tasks_of_late_work() == begun
    await late.end()
    assert tasks_of_late_work() == set()


async def test_given_a_scrubber_over_no_logs_when_it_has_begun_then_a_round_is_over_and_it_ends(
    monkeypatch,
):
    monkeypatch.setattr(late_work, "SCRUBBER_DELAY_S", 0.0)
    late = work(cleaner=False, scrub_bytes_per_second=1)
    late.begin()

    async with asyncio.timeout(30):
        while not late._metrics.scrub.rounds:
            await asyncio.sleep(0)
    await late.end()
    await late.end()

    assert late._metrics.scrub.failures == 0
