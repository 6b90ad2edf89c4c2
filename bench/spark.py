"""Spark on `local[2]`: sources, jobs and micro-batches, each beside what Spark has of its own.

Everything runs in one session with the settings of `tidelog.spark.session`. What is compared takes
turns, after some of each that do not count (workers start, Java compiles), and the best turn is
taken: the machine's other tenants slow some turns, and speed up none. The decode kernel is held
against kafka-python's reader in this process, in CPU time.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from kafka.record.memory_records import MemoryRecords
from pyspark.sql import functions

from bench import processes
from bench.spark_data import BATCH_BYTES, link_copies, write_topic
from bench.table import Table
from protocol.checksum import crc32c
from protocol.compression import Codec
from tidelog.segments.reader import read
from tidelog.spark import scan, session
from tidelog.spark.jobs import archive, audit, compact
from tidelog.spark.jobs.job import Job

TOPICS: Final = ("small", "zstd", "zstd-tiny", "large")
SMALL_RECORDS: Final = 3_000_000
LARGE_RECORDS: Final = 400_000
KERNEL_RECORDS: Final = 400_000
ZSTD_BATCHES: Final = 4
"""Their records take so many times 16 KB; stored, a batch has 16 KB then."""
RATE_FORMATS: Final = {"M": ".2f", "MB": ".0f"}
AUDIT_COPIES: Final = 8
WARM_TURNS: Final = 2
SCAN_WARM_TURNS: Final = 4
"""Java has compiled all of a scan after so many."""
TURNS: Final = 5
MICRO_BATCHES: Final = 80
WARM_BATCHES: Final = 15
READ_BYTES: Final = 8 << 20


def run(table: Table, scale: float) -> None:
    print("spark:", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
    try:
        _kernel(table, directory, scale)
        spark = session("bench", "local[2]", {"spark.driver.memory": "4g"})
        try:
            with processes.peak_memory() as peak:
                _all(table, spark, directory, scale)
            table.add("peak memory of the session, its workers with it", f"{peak()} MiB")
        finally:
            spark.stop()
    finally:
        shutil.rmtree(directory)


def _all(table: Table, spark: Any, directory: Path, scale: float) -> None:
    data = directory / "data"
    sizes = {
        "small": write_topic(data, "small", int(SMALL_RECORDS * scale), 100),
        "zstd": write_topic(
            data,
            "zstd",
            int(SMALL_RECORDS * scale),
            100,
            Codec.ZSTD,
            batch_bytes=ZSTD_BATCHES * BATCH_BYTES,
        ),
        "zstd-tiny": write_topic(data, "zstd-tiny", int(SMALL_RECORDS * scale), 100, Codec.ZSTD),
        "large": write_topic(data, "large", int(LARGE_RECORDS * scale), 1000),
    }
    _scans(table, spark, directory, scale)
    _archive(table, spark, directory, scale)
    _compaction(table, spark, directory, scale)
    _audit(table, spark, directory, sizes["small"])
    _micro_batches(table, spark, directory)


def turns(*calls: Callable[[], object], warm: int = WARM_TURNS) -> list[float]:
    """Call each in its turn, at first in vain; return the best seconds of each."""
    seconds: list[list[float]] = [[] for _ in calls]
    for turn in range(warm + TURNS):
        for call, taken in zip(calls, seconds, strict=True):
            started = time.perf_counter()
            call()
            if turn >= warm:
                taken.append(time.perf_counter() - started)
    return [min(taken) for taken in seconds]


# --- scans ------------------------------------------------------------------------------------


def _segments(spark: Any, data: Path, topic: str) -> Any:
    reader = spark.read.format("tidelog_segments").option("path", str(data))
    return reader.option("subscribe", topic).load()


def _to_nowhere(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _scans(table: Table, spark: Any, directory: Path, scale: float) -> None:
    data = directory / "data"
    peers = {}
    for name in ("small", "large"):
        parquet = str(directory / f"{name}.parquet")
        _segments(spark, data, name).write.option("compression", "zstd").parquet(parquet)
        peers[name] = spark.read.parquet(parquet)
    frames = {name: scan(spark, str(data), subscribe=name) for name in TOPICS}
    small, zstd, zstd_tiny, parquet_small, by_source = turns(
        lambda: _to_nowhere(frames["small"]),
        lambda: _to_nowhere(frames["zstd"]),
        lambda: _to_nowhere(frames["zstd-tiny"]),
        lambda: _to_nowhere(peers["small"]),
        lambda: _to_nowhere(_segments(spark, data, "small")),
        warm=SCAN_WARM_TURNS,
    )
    large, parquet_large = turns(
        lambda: _to_nowhere(frames["large"]),
        lambda: _to_nowhere(peers["large"]),
        warm=SCAN_WARM_TURNS,
    )
    million, megabytes = SMALL_RECORDS * scale / 1e6, LARGE_RECORDS * scale * 1000 / 1e6
    for what, ours, theirs, amount, unit, at_least in (
        ("scan, 100 B, all columns, beside zstd Parquet", small, parquet_small, million, "M", 0.9),
        ("the same by spark.read", by_source, parquet_small, million, "M", None),
        (
            "scan, 100 B in zstd batches, 16 KB as stored, beside uncompressed ones",
            zstd, small, million, "M", 0.75,
        ),
        (
            "the same in zstd batches, 16 KB before compression",
            zstd_tiny, small, million, "M", None,
        ),
        (
            "scan, 1 KB, all columns, beside zstd Parquet",
            large, parquet_large, megabytes, "MB", 0.8,
        ),
    ):  # fmt: skip
        table.add(
            what,
            f"{amount / ours:{RATE_FORMATS[unit]}} {unit}/s",
            f"{amount / theirs:{RATE_FORMATS[unit]}} {unit}/s",
            ratio=theirs / ours,
            at_least=at_least,
        )


def _kernel(table: Table, directory: Path, scale: float) -> None:
    """One core, from bytes to columns, beside kafka-python from bytes to record objects."""
    records = int(KERNEL_RECORDS * scale)
    write_topic(directory / "kernel", "kernel", records, 100)
    segments = sorted((directory / "kernel").glob("*/*.log"))
    contents = [segment.read_bytes() for segment in segments]

    def ours() -> int:
        return sum(batch.num_rows for path in segments for batch in read(path))

    def theirs() -> int:
        rows = 0
        for content in contents:
            stored = MemoryRecords(content)
            while (batch := stored.next_batch()) is not None:
                if not batch.validate_crc():
                    raise RuntimeError("a wrong CRC")
                for record in batch:
                    _ = record.offset, record.timestamp, record.key, record.value, record.headers
                    rows += 1
        return rows

    rates = []
    for call in (ours, theirs):
        if call() != records:
            raise RuntimeError("not all records were read")
        best = min(_cpu_seconds(call) for _ in range(TURNS))
        rates.append(records / best / 1e6)
    table.add(
        "decode, 100 B, one core, beside kafka-python",
        f"{rates[0]:.1f} M/s",
        f"{rates[1]:.2f} M/s",
        ratio=rates[0] / rates[1],
        at_least=15,
    )


def _cpu_seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


# --- jobs -------------------------------------------------------------------------------------


def _job(spark: Any, name: str) -> Job:
    return Job(name, lambda: spark)


def _archive(table: Table, spark: Any, directory: Path, scale: float) -> None:
    frame = _segments(spark, directory / "data", "small")
    numbers = itertools.count()

    def ours() -> None:
        lake = str(directory / f"lake-{next(numbers)}")
        options = archive.ArchiveOptions(
            lake=lake, path=str(directory / "data"), topics=("small",), is_single_writer=True
        )
        archive.run(options, _job(spark, "archive"))
        shutil.rmtree(lake)

    def theirs() -> None:
        target = str(directory / f"written-{next(numbers)}")
        frame.write.option("compression", "zstd").parquet(target)
        shutil.rmtree(target)

    archived, written = turns(ours, theirs)
    records = SMALL_RECORDS * scale / 1e6
    table.add(
        "archive, 100 B, beside df.write.parquet of the same frame",
        f"{records / archived:.2f} M/s",
        f"{records / written:.2f} M/s",
        ratio=written / archived,
        at_least=2,
    )


def _compaction(table: Table, spark: Any, directory: Path, scale: float) -> None:
    """To segments, beside the plain query for the last record of each key, to nowhere."""
    frame = _segments(spark, directory / "data", "small")
    numbers = itertools.count()

    def ours() -> None:
        output = str(directory / f"compacted-{next(numbers)}")
        options = compact.CompactOptions(
            path=str(directory / "data"), output=output, topics=("small",)
        )
        compact.run(options, _job(spark, "compact"))
        shutil.rmtree(output)

    def theirs() -> None:
        latest = frame.groupBy("partition", "key").agg(
            functions.max_by(functions.struct("value", "timestamp", "offset"), "offset")
        )
        _to_nowhere(latest)

    compacted, queried = turns(ours, theirs)
    records = SMALL_RECORDS * scale / 1e6
    table.add(
        "compaction, 100 B, beside a query with max_by",
        f"{records / compacted:.2f} M/s",
        f"{records / queried:.2f} M/s",
        ratio=queried / compacted,
        at_least=5,
    )


def _audit(table: Table, spark: Any, directory: Path, topic_bytes: int) -> None:
    """All checks, beside one loop that reads the files and runs crc32c over them."""
    data = directory / "audited"
    link_copies(directory / "data", data, "small", AUDIT_COPIES)
    options = audit.AuditOptions(paths=(str(data),))

    def bare() -> None:
        buffer = bytearray(READ_BYTES)
        for path in sorted(data.glob("*/*.log")):
            with path.open("rb", buffering=0) as file:
                while size := file.readinto(buffer):
                    crc32c(memoryview(buffer)[:size])

    def ours() -> None:
        if not audit.run(options, _job(spark, "audit")).is_ok:
            raise RuntimeError("the audit found faults where there are none")

    audited, read = turns(ours, bare)
    gigabytes = topic_bytes * AUDIT_COPIES / 1e9
    table.add(
        "audit, beside a bare loop of crc32c on one core",
        f"{gigabytes / audited:.2f} GB/s",
        f"{gigabytes / read:.2f} GB/s",
        ratio=read / audited,
        at_least=0.6,
    )


# --- micro-batches ----------------------------------------------------------------------------


def _micro_batches(table: Table, spark: Any, directory: Path) -> None:
    """Ten rows a batch, batch after batch, beside Spark's own source of such rows."""
    ours = spark.readStream.format("tidelog_segments").options(
        path=str(directory / "data"), subscribe="small", startingOffsets="earliest",
        maxOffsetsPerTrigger=10,
    )  # fmt: skip
    theirs = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=10)
    taken = []
    for number, reader in enumerate((theirs, ours, theirs, ours)):
        taken.append(_batch_times(reader.load(), directory / f"checkpoint-{number}"))
    for share in (50, 95):
        rate = min(_percentile(each, share) for each in taken[0::2])
        segments = min(_percentile(each, share) for each in taken[1::2])
        table.add(
            f"micro-batch of 10 rows, p{share}, beside rate-micro-batch",
            f"{segments:.0f} ms",
            f"{rate:.0f} ms",
            ratio=segments / rate,
            at_most=1.3,
        )


def _percentile(values: Sequence[float], share: int) -> float:
    return statistics.quantiles(values, n=100)[share - 1]


def _batch_times(frame: Any, checkpoint: Path) -> list[float]:
    """Return the milliseconds of each micro-batch, those of the beginning left out."""
    stream = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = stream.start()
    try:
        while query.lastProgress is None or query.lastProgress["batchId"] < MICRO_BATCHES:
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
            time.sleep(0.05)
        progress = [each for each in query.recentProgress if each["numInputRows"]]
    finally:
        query.stop()
    return [each["durationMs"]["triggerExecution"] for each in progress[WARM_BATCHES:]]
