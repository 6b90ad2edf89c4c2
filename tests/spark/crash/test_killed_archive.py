"""The driver of an archive, killed with -9: nothing lost, nothing doubled, in the directory too."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from tests.support.spark_crash import kill_of, run_killed, seeds
from tests.support.spark_logs import some_records, write_partition
from tidelog.lake.parquet_files import SCHEMA
from tidelog.lake.reader import open_topic, read_lake_table
from tidelog.lake.verification import verify_topic
from tidelog.segments.location import locate
from tidelog.spark.jobs.archive import ArchiveOptions, run
from tidelog.spark.jobs.job import Job

pytestmark = pytest.mark.timeout(600)  # a second Java is started, perhaps beside other tests

TOPICS = ("a-logs", "b-logs", "c-logs")
PARTITIONS = 4
RECORDS = some_records(120)
ARCHIVED_BEFORE = 50
ALL = {(partition, record.offset): record.value for partition in range(4) for record in RECORDS}
FILES_SEEN = 50
"""Paths that a lake has while the driver of `command` is on its way; what is moved counts twice."""


class PathsSeen:
    """Counts the paths that were ever seen below a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._before = set(root.rglob("*.*"))
        self._seen: set[Path] = set()

    def __call__(self) -> int:
        self._seen |= set(self._root.rglob("*.*")) - self._before
        return len(self._seen)


def command(logs: Path, lake: Path) -> list[str]:
    return [
        sys.executable, "-m", "tidelog", "spark", "archive", str(logs), "--to", str(lake),
        "--compact", "--json", "--master", "local[2]", "--conf", "spark.driver.memory=512m",
    ]  # fmt: skip


def counted(table: pa.Table) -> Counter[tuple[int, int, bytes | None]]:
    rows = table.select(["partition", "offset", "value"]).to_pylist()
    return Counter((row["partition"], row["offset"], row["value"]) for row in rows)


def listed(lake: Path, topic: str) -> Counter[tuple[int, int, bytes | None]]:
    """Return how often each record is in a directory, for a reader that only lists it."""
    data = lake / topic / "data"
    return counted(ds.dataset(data, SCHEMA, "parquet", partitioning="hive").to_table())


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_given_an_archive_that_is_killed_when_run_again_then_each_record_is_there_once(
    spark, tmp_path, seed
):
    logs, lake = tmp_path / "logs", tmp_path / "lake"
    job = Job("archive", lambda: spark)
    for part in (RECORDS[:ARCHIVED_BEFORE], RECORDS[ARCHIVED_BEFORE:]):
        for topic in TOPICS:
            for partition in range(PARTITIONS):
                write_partition(logs, topic, partition, part)
        if part[0].offset == 0:
            run(ArchiveOptions(lake=str(lake), path=str(logs)), job)
    expected = Counter((*key, value) for key, value in ALL.items())

    outcome = run_killed(
        command(logs, lake), PathsSeen(lake), kill_of(seed, FILES_SEEN), tmp_path / "driver.txt"
    )
    after_kill = {topic: listed(lake, topic) for topic in TOPICS}
    run(ArchiveOptions(lake=str(lake), path=str(logs), compact=True), job)

    assert outcome.was_killed, outcome.output
    for topic in TOPICS:
        assert after_kill[topic] <= expected  # nothing doubled, and no torn file either
        assert listed(lake, topic) == expected
        assert counted(read_lake_table(lake, topic)) == expected
        assert list(verify_topic(open_topic(locate(str(lake)), topic), is_deep=True)) == []
