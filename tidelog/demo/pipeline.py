"""Pipeline: the demo's second half: Spark reads the lines as a stream, and archives the topic."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.demo.log_lines import in_order
from tidelog.lake.reader import read_lake_table
from tidelog.spark import session
from tidelog.spark.jobs.archive import run as run_archive
from tidelog.spark.jobs.archive_options import ArchiveOptions
from tidelog.spark.jobs.job import Job
from tidelog.spark.quiet_java import quiet_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Pipeline", "pipeline"]

ADDRESS: Final = r"\b(\d{1,3}(?:\.\d{1,3}){3})\b"
SHOWN: Final = 3


class Pipeline:
    """A Spark on this machine, and the topic of a broker."""

    def __init__(self, spark: SparkSession, broker: str, topic: str) -> None:
        self._spark, self._broker, self._topic = spark, broker, topic

    def most_named(self) -> tuple[int, list[tuple[str, int]]]:
        """Run a streaming query over all there is.

        Returns: how many lines it read, and which addresses are named most, with their counts.
        """
        from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

        records = (
            self._spark.readStream.format("tidelog")
            .options(broker=self._broker, subscribe=self._topic, startingOffsets="earliest")
            .load()
        )
        address = F.regexp_extract(F.col("value").cast("string"), ADDRESS, 1)
        query = (
            records.groupBy(address.alias("address"))
            .count()
            .writeStream.format("memory")
            .queryName("addresses")
            .outputMode("complete")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found = self._spark.table("addresses").orderBy(F.desc("count"), "address").collect()
        named = [(row["address"], row["count"]) for row in found if row["address"]]
        return sum(row["count"] for row in found), named[:SHOWN]

    def archive(self, lake: Path) -> int:
        """Write the topic's records as Parquet files; return how many files there are then."""
        options = ArchiveOptions(lake=str(lake), broker=self._broker, topics=(self._topic,))
        result = run_archive(options, Job("archive", lambda: self._spark))
        return sum(partition.files for partition in result.partitions)

    def archived(self, lake: Path, partition_count: int) -> list[bytes]:
        """Return the lines in the lake, in the order in which they were shipped."""
        table = read_lake_table(lake, self._topic, columns=["partition", "value"])
        values: list[list[bytes]] = [[] for _ in range(partition_count)]
        for row in table.to_pylist():
            values[row["partition"]].append(row["value"])
        return in_order(values)


@contextmanager
def pipeline(broker: str, topic: str) -> Iterator[tuple[Pipeline, float]]:
    """Start a Spark with two tasks at a time; yield the pipeline, and the seconds that took."""
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-spark-") as directory:
        settings = {
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": directory,
            "spark.sql.warehouse.dir": os.path.join(directory, "warehouse"),
        }
        started = time.perf_counter()
        with quiet_java():
            spark = session("tidelog demo", "local[2]", settings)
        try:
            yield Pipeline(spark, broker, topic), time.perf_counter() - started
        finally:
            spark.stop()
