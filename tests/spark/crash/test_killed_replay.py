"""The driver of a replay, killed with -9: no record is lost and none is there twice."""

from __future__ import annotations

import sys

import pytest

from tests.support.replays import expected, fill_lake, topic_of
from tests.support.spark_crash import kill_of, run_killed, seeds
from tidelog.client import Client
from tidelog.spark.jobs.job import Job
from tidelog.spark.jobs.replay import ReplayOptions, run

PARTITIONS = 3
RECORDS = 400
SEEN_MAX = PARTITIONS * RECORDS * 9 // 10
"""A driver that has all but a tenth of them in the topic is killed on its way, not at its end."""


def command(options: ReplayOptions) -> list[str]:
    return [
        sys.executable, "-m", "tidelog", "spark", "replay", options.lake, "--topic", options.topic,
        "--target", options.target, "--broker", options.broker, "--json", "--master", "local[2]",
        "--conf", "spark.driver.memory=512m",
    ]  # fmt: skip


@pytest.mark.parametrize("seed", seeds(2))
def test_given_a_replay_that_is_killed_when_run_again_then_each_record_is_there_once(
    spark, broker, tmp_path, seed
):
    fill_lake(tmp_path / "lake", range(PARTITIONS), 0, RECORDS)
    options = ReplayOptions(
        lake=str(tmp_path / "lake"),
        topic="web-logs",
        broker=broker.address,
        target=f"killed-replay-{seed}",
    )

    with Client(broker.address) as client:

        def records_there() -> int:
            partitions = client.topics(options.target)[0].partitions
            return sum(max(each.high_watermark, 0) for each in partitions)

        kill = kill_of(seed, SEEN_MAX)
        outcome = run_killed(command(options), records_there, kill, tmp_path / "driver.txt")
    there = topic_of(options)
    result = run(options, Job("replay", lambda: spark))

    assert outcome.was_killed, outcome.output
    everything = {partition: expected(partition, RECORDS) for partition in range(PARTITIONS)}
    assert all(rows == everything[number][: len(rows)] for number, rows in there.items())
    assert topic_of(options) == everything
    before = sum(map(len, there.values()))
    assert sum(each.appended for each in result.copied) == PARTITIONS * RECORDS - before
