"""The cleaner: how fast it cleans on one core, and what a producer of another topic feels of it.

Speed is of a pass in this process, in CPU seconds, so that other programs do not count; the bytes
are those of the log (before compression), each read twice, and those that stay written once. Waits
are those of single produces with acks=all to another topic, one after the other, in turns of about
two seconds with the cleaner stopped (its process, by a signal, and all it wrote synced) and at work
on a log of its own with its default settings: a disk changes its mind about what a sync costs from
one minute to the next.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
import urllib.request
from pathlib import Path

from bench import frames, generators, processes
from bench.table import Table
from broker.clock import SystemClock
from broker.storage.compaction import CompactionSegment
from broker.storage.compactor import CleaningJob, clean_log
from broker.storage.os_disk import OsDisk
from protocol.compression import Codec
from protocol.record_batch_builder import build_batch
from protocol.stored.file_names import log_file_name

SEGMENT_BYTES = 64 * 1024 * 1024
RECORD_BYTES = 1000
KEYS = 50_000
COMPACTED = "compacted"
ANSWER_BYTES = frames.PRODUCE_ANSWER_BYTES
PRODUCE_INTERVAL_S = 0.002
LOAD_BATCHES = 16_000
WAITS_KEYS = 300_000
ROUNDS = 12
ROUND_REQUESTS = 400
SETTLING_S = 0.3


def run(table: Table, scale: float) -> None:
    print("cleaner:", flush=True)
    for count, codec, bar in (
        (1, Codec.NONE, 60),
        (16, Codec.NONE, 60),
        (100, Codec.NONE, 60),
        (100, Codec.LZ4, None),
    ):
        with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
            _speed(table, Path(directory), count, codec, bar, scale)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
        _waits(table, Path(directory), scale)


def _batch(
    generator: random.Random,
    offset: int,
    count: int,
    codec: Codec,
    value: bytes,
    keys: int = KEYS,
) -> bytes:
    records = [
        (offset + number, frames.TIMESTAMP_MS, b"key-%08d" % generator.randrange(keys), value)
        for number in range(count)
    ]
    return build_batch(records, base_offset=offset, codec=codec)


def _log_of(path: Path, count: int, codec: Codec, size_bytes: float) -> tuple[CleaningJob, int]:
    """Write a log of keyed records of 1 KB; return a pass over it, and its size."""
    generator, value = random.Random(1), os.urandom(RECORD_BYTES - 24)
    offset, records = 0, int(size_bytes / RECORD_BYTES)
    segments: list[CompactionSegment] = []
    while offset < records:
        base_offset, segment_bytes = offset, 0
        with (path / log_file_name(base_offset)).open("wb") as file:
            while segment_bytes < SEGMENT_BYTES and offset < records:
                batch = _batch(generator, offset, count, codec, value)
                segment_bytes += file.write(batch)
                offset += count
        segments.append(CompactionSegment(base_offset, offset, segment_bytes))
    job = CleaningJob(
        directory=str(path), segments=tuple(segments), later_base_offsets=(), first_dirty_offset=0,
        first_uncleanable_offset=offset, now_ms=frames.TIMESTAMP_MS, delete_retention_ms=1,
        segment_bytes=1 << 30, segment_index_bytes=10 << 20, index_interval_bytes=4096,
        last_records={}, dedupe_buffer_bytes=128 << 20,
    )  # fmt: skip
    return job, offset * RECORD_BYTES


def _speed(
    table: Table, path: Path, count: int, codec: Codec, bar: float | None, scale: float
) -> None:
    job, size_bytes = _log_of(path, count, codec, 0.3e9 * scale)
    cpu_s = time.process_time()
    result = clean_log(job, OsDisk(), SystemClock())
    cpu_s = time.process_time() - cpu_s
    kept = result.stats.counts.records_kept / result.stats.counts.records_read
    rate = size_bytes / 1e6 / cpu_s
    table.add(
        f"cleaning, batches of {count} records of 1 KB, {codec.name.lower()}",
        f"{rate:.0f} MB/s of CPU, {kept:.0%} kept",
        ratio=rate,
        at_least=bar,
    )


def _waits(table: Table, directory: Path, scale: float) -> None:
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    settings |= {"segment.bytes": str(SEGMENT_BYTES)}
    generator, value = random.Random(1), os.urandom(RECORD_BYTES - 24)
    with processes.broker(directory, "cleaner.enabled=false") as server:
        create = [frames.create_topic(), frames.create_topic(1, COMPACTED, **settings)]
        generators.stream(server.port, create, 2, 1)
        load = [
            frames.produce(_batch(generator, 0, 100, Codec.NONE, value, keys=WAITS_KEYS),
                           topic=COMPACTED)
            for _ in range(2_000)
        ]  # fmt: skip
        generators.stream(server.port, load, int(LOAD_BATCHES * scale), 8)
    os.sync()
    quiet, busy = Waits(), Waits()
    with processes.broker(directory, "cleaner.backoff_ms=100") as server:
        while not _is_running(server):
            time.sleep(0.05)
        worker = processes.child(server, "broker.worker_process")
        rounds = 0
        while rounds < ROUNDS * scale:
            os.kill(worker, signal.SIGSTOP)
            os.sync()
            time.sleep(SETTLING_S)
            without = _produced(server)
            os.kill(worker, signal.SIGCONT)
            with_cleaner = _produced(server)
            if not _is_running(server):
                break  # it has ended within this round, which says nothing then
            quiet.milliseconds += without
            busy.milliseconds += with_cleaner
            rounds += 1
    table.add(
        f"produce p99 while another log is cleaned, {rounds} rounds",
        f"{busy.percentile(0.99):.2f} ms; p50 {busy.percentile(0.5):.2f} ms",
        f"{quiet.percentile(0.99):.2f} ms; p50 {quiet.percentile(0.5):.2f} ms",
        ratio=busy.percentile(0.99) / quiet.percentile(0.99),
        at_most=2.0,
    )


class Waits:
    """How long single requests took, in milliseconds."""

    def __init__(self) -> None:
        self.milliseconds: list[float] = []

    def percentile(self, share: float) -> float:
        ordered = sorted(self.milliseconds)
        return ordered[int(len(ordered) * share)]


def _produced(server: processes.Server) -> list[float]:
    """Produce single messages with acks=all, a few hundred a second."""
    frame = frames.produce(frames.batch(1, 200), acks=-1)
    received = memoryview(bytearray(1 << 16))
    waits: list[float] = []
    with generators.connect(server.port) as connection:
        for _ in range(ROUND_REQUESTS):
            sent = time.perf_counter()
            connection.sendall(frame)
            generators.read_answer(connection, received)
            waits.append((time.perf_counter() - sent) * 1e3)
            time.sleep(PRODUCE_INTERVAL_S)
    return waits


def _is_running(server: processes.Server) -> bool:
    url = f"http://127.0.0.1:{server.http_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return b"\ntidelog_cleaner_running 1.0" in answer.read()
