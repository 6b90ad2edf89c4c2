"""Failed logins per minute and address, from a topic of sshd's log lines, as a Parquet table.

    python examples/openssh_failed_logins.py --path ./tidelog-data --topic sshd --into logins
    python examples/openssh_failed_logins.py --broker localhost:9091 --topic sshd --into logins

It takes what there is and ends (run it from cron); with --follow it stays and goes on. A minute is
written once it is over for good: when a line comes that is ten minutes younger than its end.
What is later than that is left out. Where it was is kept in `logins/_checkpoint`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.streaming import StreamingQuery

from tidelog.spark import session

LATE_AT_MOST = "10 minutes"
FAILED = (
    r"sshd\[\d+\]: (?:message repeated (\d+) times: \[ )?"
    r"Failed password for (?:invalid user )?(.*) from ([0-9a-fA-F.:]+) port \d+"
)
"""How often, which user, from where. rsyslog writes lines that repeat as one with their number."""


def failed_logins(records: DataFrame) -> DataFrame:
    """Return `time`, `address`, `user` and `times` for each record that is a failed login."""
    line = F.col("value").cast("string")
    failed = records.select(
        event_time(line, F.col("timestamp")).alias("time"),
        F.regexp_extract(line, FAILED, 3).alias("address"),
        F.regexp_extract(line, FAILED, 2).alias("user"),
        F.regexp_extract(line, FAILED, 1).alias("repeated"),
    ).where("address != ''")
    times = F.when(F.col("repeated") == "", 1).otherwise(F.col("repeated").cast("int"))
    return failed.select("time", "address", "user", times.alias("times"))


def event_time(line: Column, written: Column) -> Column:
    """Return the time at a syslog line's beginning, such as `Dec 10 06:55:46`.

    It has no year: that is the year in which the record was written, or the one before for a line
    of December that was written in January. Its zone is that of the session.
    """
    day = F.regexp_replace(F.substring(line, 1, 15), " +", " ")
    time = F.try_to_timestamp(F.concat_ws(" ", F.year(written), day), F.lit("yyyy MMM d HH:mm:ss"))
    is_of_last_year = time > written + F.expr("INTERVAL 1 DAY")
    return F.when(is_of_last_year, time - F.expr("INTERVAL 1 YEAR")).otherwise(time)


def per_minute(logins: DataFrame) -> DataFrame:
    """Return how many logins failed in each minute and from each address, and of how many users."""
    return (
        logins.withWatermark("time", LATE_AT_MOST)
        .groupBy(F.window("time", "1 minute").alias("minute"), "address")
        .agg(F.sum("times").alias("failed"), F.approx_count_distinct("user").alias("users"))
        .select(F.col("minute.start").alias("minute"), "address", "failed", "users")
    )


def start(
    spark: SparkSession, source: dict[str, str], into: Path, *, follow: bool = False
) -> StreamingQuery:
    """Start the query; it ends by itself unless it is to follow.

    Args:
        source: Options of the source: `path` or `broker`, `subscribe`, and what else it takes.
        into: The table's directory.
    """
    name = "tidelog" if "broker" in source else "tidelog_segments"
    records = spark.readStream.format(name).options(startingOffsets="earliest", **source).load()
    return (
        per_minute(failed_logins(records))
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(into))
        .option("checkpointLocation", str(into / "_checkpoint"))
        .trigger(**({"processingTime": "10 seconds"} if follow else {"availableNow": True}))
        .start()
    )


def main() -> None:
    """Run the query and show the worst addresses."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--path", help="a data directory")
    where.add_argument("--broker", help="HOST:PORT of a running broker")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--into", required=True, type=Path, help="the directory of the table")
    parser.add_argument("--follow", action="store_true", help="stay, and take what comes")
    asked = parser.parse_args()
    source = {"subscribe": asked.topic}
    source |= {"path": asked.path} if asked.path else {"broker": asked.broker}
    spark = session("failed logins")
    start(spark, source, asked.into, follow=asked.follow).awaitTermination()
    table = spark.read.parquet(str(asked.into))
    worst = table.groupBy("address").agg(F.sum("failed").alias("failed"))
    worst.orderBy(F.desc("failed"), "address").show(10, truncate=False)


if __name__ == "__main__":
    main()
