"""Recovery and start: what a tail costs to check, and how long a start with many logs takes.

The cost of a tail is of one log recovered in this process, as a worker does it, in CPU seconds: all
batches checked, indexes and producers' state built, files synced; its pages come from the disk, for
recovery drops them first. Starts are from `exec` to the first acknowledged produce.
"""

from __future__ import annotations

import signal
import statistics
import tempfile
import time
from pathlib import Path
from struct import Struct
from uuid import UUID

from bench import frames, generators, processes
from bench.table import Table
from broker.clock import SystemClock
from broker.storage.log_config import LogConfig
from broker.storage.log_directory import LogDirectory
from broker.storage.log_plan import LogPlan
from broker.storage.log_recovery import recover_log
from broker.storage.os_disk import OsDisk
from broker.storage.recovery import Hints
from broker.storage.storage_options import StorageOptions
from protocol.identifiers import TopicPartition
from protocol.record_batch_builder import build_batch
from protocol.stored.file_names import CLEAN_SHUTDOWN_MARKER, log_file_name

GB = 1_000_000_000
ROUNDS = 3
OFFSET = Struct(">q")
UNKNOWN = Hints(is_clean=False, recovery_point=None, log_start_offset=0, durable_offset=None)
SEGMENTS = 5


def run(table: Table, scale: float) -> None:
    print("recovery:", flush=True)
    for name, value_bytes, producer_id, bar in (
        ("16 KB batches", 16_300, -1, 1.0),
        ("16 KB batches of idempotent producers", 16_300, 7, 1.0),
        ("1 KB batches", 950, -1, None),
        ("1 KB batches of idempotent producers", 950, 7, None),
    ):
        with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
            batch = _batch(value_bytes, producer_id)
            _tail_cost(table, Path(directory), name, batch, bar, scale)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
        _many_logs(table, Path(directory), scale)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
        _large_tail(table, Path(directory), scale)


def _batch(value_bytes: int, producer_id: int) -> bytes:
    record = (0, frames.TIMESTAMP_MS, None, b"x" * value_bytes)
    if producer_id < 0:
        return build_batch([record])
    return build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0)


def _write_log(directory: Path, batch: bytes, size_bytes: float) -> None:
    """Write one segment of equal batches, but for their offsets: no CRC covers those."""
    directory.mkdir(parents=True)
    at_once = bytearray(batch * max(1, 1_000_000 // len(batch)))
    offset = 0
    with (directory / log_file_name(0)).open("wb") as file:
        while file.tell() < size_bytes:
            for position in range(0, len(at_once), len(batch)):
                OFFSET.pack_into(at_once, position, offset)
                offset += 1
            file.write(at_once)


def _tail_cost(
    table: Table, directory: Path, name: str, batch: bytes, bar: float | None, scale: float
) -> None:
    """A producer's sequences do not go on from batch to batch here; a log that is loaded says what
    is, so that changes nothing."""
    taken = []
    for number in range(ROUNDS):
        path = directory / f"tail-{number}"
        _write_log(path, batch, 0.5 * GB * scale)
        plan = LogPlan(path, TopicPartition("tail", number), UUID(int=1), LogConfig(), UNKNOWN, 0)
        started_s = time.process_time()
        facts = recover_log(OsDisk(), SystemClock(), StorageOptions(), plan)
        taken.append((time.process_time() - started_s) / (facts.checked_bytes / GB))
    least = min(taken)
    table.add(f"recovery of {name}, CPU a GB", f"{least:.2f} s", ratio=least, at_most=bar)


def _many_logs(table: Table, directory: Path, scale: float) -> None:
    """A thousand partitions of five segments: stopped in order, then killed."""
    count = max(1, round(1000 * scale))
    data = directory / "data"
    _make_logs(data, count)
    _starts(table, directory, f"clean start, {count} partitions of {SEGMENTS} segments", bar=2.0)
    _starts(
        table, directory, f"start after kill -9, {count} partitions of {SEGMENTS} segments",
        kill=True,
    )  # fmt: skip


def _make_logs(data: Path, count: int) -> None:
    config = LogConfig()
    directory = LogDirectory.open(OsDisk(), data, SystemClock(), lambda topic: config, create=True)
    batch = build_batch([(n, time.time_ns() // 1_000_000, None, b"x" * 900) for n in range(9)])
    for number in range(count):
        log = directory.create_log(TopicPartition(frames.TOPIC, number), UUID(int=7), config)
        for segment in range(SEGMENTS):
            if segment:
                log.roll()
            log.append(memoryview(bytearray(batch)))
        log.flush()
    directory.close()


def _starts(
    table: Table, directory: Path, name: str, *, bar: float | None = None, kill: bool = False
) -> None:
    produce = frames.produce(frames.batch(1, 200), acks=-1)
    seconds = []
    for _ in range(ROUNDS):
        if kill:
            (directory / "data" / CLEAN_SHUTDOWN_MARKER).unlink(missing_ok=True)
        started_s = time.perf_counter()
        with processes.broker(directory, is_settled=False) as server:
            generators.stream(server.port, [produce], 1, 1)
            seconds.append(time.perf_counter() - started_s)
            if kill:
                server.process.send_signal(signal.SIGKILL)
    taken = statistics.median(seconds)
    table.add(name, f"{taken:.2f} s", ratio=taken, at_most=bar)


def _large_tail(table: Table, directory: Path, scale: float) -> None:
    """A tail of 1 GB over four partitions, of which nothing is known to be flushed."""
    for number in range(4):
        _write_log(
            directory / "data" / f"{frames.TOPIC}-{number}", _batch(16_300, -1), 0.25 * GB * scale
        )
    name = f"start with a tail of {scale:g} GB in 4 partitions, in worker processes"
    _starts(table, directory, name, kill=True)
