"""`make demo`: what Tidelog does, shown on a real log file.

Starts a broker, ships the file's lines into four partitions, reads them back with one multi-fetch
after another, shows that they are byte-equal, kills the broker with SIGKILL in the middle of a
second load, starts it again and shows that nothing acknowledged is gone. Then Spark reads the lines
as a stream, and archives them as Parquet files, which are read back and compared.
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
import sys
import time
import urllib.request
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from rich.console import Console

from tidelog.cli.errors import explained
from tidelog.client import Client, Delivery
from tidelog.demo.broker_process import START_TIMEOUT_S, DemoBroker, demo_broker
from tidelog.demo.log_lines import (
    PARTITIONS,
    fetch_all,
    in_order,
    join_lines,
    ship,
    split_lines,
)

SECOND_LOAD_ROUNDS: Final = 40
KILLED_AFTER: Final = 0.4
METRICS_SHOWN: Final = (
    "tidelog_topic_messages_in_total",
    "tidelog_topic_bytes_in_total",
    "tidelog_flush_duration_seconds_count",
    "tidelog_fsync_failures_total",
    "tidelog_partition_high_watermark",
)

console = Console(highlight=False, soft_wrap=True)


def round_trip(client: Client, log_file: Path) -> None:
    data = log_file.read_bytes()
    lines, ends_with_newline = split_lines(data)
    client.create_topic("demo", PARTITIONS)
    started = time.perf_counter()
    for future in ship(client, "demo", lines):
        future.result()
    seconds = time.perf_counter() - started
    console.print(
        f"2. shipped {len(lines):,} lines ({len(data):,} bytes) of {log_file.name} into "
        f"{PARTITIONS} partitions, each one synced before it was acknowledged ({seconds:.2f} s)"
    )
    fetched = join_lines(in_order(fetch_all(client, "demo")), ends_with_newline)
    if fetched != data:
        raise SystemExit("what came back differs from the file")
    console.print("3. fetched them back with MULTIFETCH and put them in order: byte-equal")


def crash(broker: DemoBroker, client: Client, lines: list[bytes]) -> None:
    """Kill the broker in the middle of a load, start it again, check every acknowledgement."""
    client.create_topic("crash", PARTITIONS)
    load = lines * SECOND_LOAD_ROUNDS
    futures: list[tuple[bytes, Future[Delivery]]] = []
    with client.producer(acks=-1, batch_bytes_max=16 * 1024) as producer:
        for number, line in enumerate(load):
            if number == int(len(load) * KILLED_AFTER):
                broker.kill()
                acknowledged = sum(future.done() for _, future in futures)
                console.print(
                    f"4. killed the broker (SIGKILL) after {number:,} lines of a second load; "
                    f"{acknowledged:,} of them had been acknowledged"
                )
                seconds = broker.start()
            partition = number % PARTITIONS
            futures.append((line, producer.produce("crash", line, partition=partition)))
    console.print(f"   started it again on the same directory: ready after {seconds:.2f} s")
    values = fetch_all(client, "crash")
    missing = sum(
        values[delivery.partition][delivery.offset : delivery.offset + 1] != [line]
        for line, future in futures
        for delivery in (future.result(),)
    )
    if missing:
        raise SystemExit(f"{missing} acknowledged lines are gone or changed")
    extra = sum(map(len, values)) - len(futures)
    console.print(
        f"5. the producer went on by itself: {len(futures):,} lines acknowledged, all of them at "
        f"their offsets, none gone, none changed ({extra:,} stored twice by its retries)"
    )


def show_metrics(broker: DemoBroker) -> None:
    url = f"http://127.0.0.1:{broker.http_port}/metrics"
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                text = answer.read().decode()
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    console.print("6. a few of its metrics:")
    for line in text.splitlines():
        if line.startswith(METRICS_SHOWN):
            console.print(f"   {line}", markup=False)


def spark_part(broker: DemoBroker, log_file: Path) -> None:
    """Read the lines with a streaming query, archive them, and compare what is in the archive."""
    from tidelog.demo.pipeline import pipeline

    lines, ends_with_newline = split_lines(log_file.read_bytes())
    lake = broker.directory / "lake"
    console.print("   starting Spark; the first time takes longer, for the decoder is compiled")
    with pipeline(f"127.0.0.1:{broker.port}", "demo") as (spark, start_seconds):
        started = time.perf_counter()
        count, named = spark.most_named()
        seconds = time.perf_counter() - started
        if count != len(lines):
            raise SystemExit(f"the stream had {count:,} lines")
        shown = ", ".join(f"{address} ({times:,})" for address, times in named) or "none"
        console.print(
            f"7. started Spark ({start_seconds:.1f} s); a streaming query read the {count:,} lines "
            f"({seconds:.1f} s); the addresses named most: {shown}"
        )
        started = time.perf_counter()
        files = spark.archive(lake)
        seconds = time.perf_counter() - started
        archived = spark.archived(lake, PARTITIONS)
    if join_lines(archived, ends_with_newline) != log_file.read_bytes():
        raise SystemExit("what is in the archive differs from the file")
    console.print(
        f"8. archived the topic as {files} Parquet files ({seconds:.1f} s), read them without "
        "Spark and put the lines in order: byte-equal"
    )


def show(log_file: Path, *, has_spark: bool) -> None:
    """Show all of it; the broker and its files are gone at the end, however that comes."""
    with demo_broker() as broker:
        seconds = broker.start()
        console.print(
            f"1. a broker with its defaults is ready on port {broker.port} ({seconds:.2f} s)"
        )
        with Client(f"127.0.0.1:{broker.port}") as client:
            round_trip(client, log_file)
            crash(broker, client, split_lines(log_file.read_bytes())[0])
            show_metrics(broker)
        if has_spark:
            spark_part(broker, log_file)
        code = broker.stop()
        console.print(f"{9 if has_spark else 7}. stopped it (SIGTERM): exit code {code}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tidelog.demo", description=__doc__)
    parser.add_argument("log_file", type=Path, help="any text file of some thousands of lines")
    parser.add_argument("--without-spark", action="store_true", help="leave Spark out")
    asked = parser.parse_args()
    try:
        if not asked.log_file.read_bytes():
            raise SystemExit(f"{asked.log_file} is empty: name a file with some lines")
    except OSError as error:
        raise SystemExit(f"{asked.log_file}: {error.strerror}") from error
    is_installed = importlib.util.find_spec("pyspark") is not None
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        show(asked.log_file, has_spark=is_installed and not asked.without_spark)
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except Exception as error:
        known = explained(error)
        if known is None:
            raise
        raise SystemExit(f"the demo failed: {known[0]}") from error
    if not is_installed:
        console.print("(there is more to see with Spark: pip install 'tidelog[spark]')")


if __name__ == "__main__":
    main()
