"""The cleaner: how fast it cleans on one core, and what a producer of another topic feels of it.

Speed is of a pass in this process, in CPU seconds, so that other programs do not count; the bytes
are those of the log (before compression), each read twice, and those that stay written once. Waits
are those of single produces with acks=all to another topic, one after the other, with the cleaner
off, and then with it at work all the time on a log of its own, with its default settings.
"""

from __future__ import annotations

import os
import random
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


def run(table: Table, scale: float) -> None:
    print("cleaner:", flush=True)
    for count, codec, bar in (
        (1, Codec.NONE, None),
        (16, Codec.NONE, 60),
        (100, Codec.NONE, 60),
        (100, Codec.LZ4, None),
    ):
        with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
            _speed(table, Path(directory), count, codec, bar, scale)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
        _waits(table, Path(directory), scale)


def _batch(generator: random.Random, offset: int, count: int, codec: Codec, value: bytes) -> bytes:
    records = [
        (offset + number, frames.TIMESTAMP_MS, b"key-%08d" % generator.randrange(KEYS), value)
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
    requests = int(4000 * scale)
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    settings |= {"segment.bytes": str(SEGMENT_BYTES)}
    generator, value = random.Random(1), os.urandom(RECORD_BYTES - 24)
    with processes.broker(directory, "cleaner.enabled=false") as server:
        create = [frames.create_topic(), frames.create_topic(1, COMPACTED, **settings)]
        generators.stream(server.port, create, 2, 1)
        load = [
            frames.produce(_batch(generator, 0, 100, Codec.NONE, value), topic=COMPACTED)
            for _ in range(100)
        ]
        generators.stream(server.port, load, int(5_000 * scale), 8)
        quiet = _produced(server, requests)
    with processes.broker(directory, "cleaner.backoff_ms=100") as server:
        while not _is_running(server):
            time.sleep(0.05)
        busy = _produced(server, requests)
        was_running = _is_running(server)
    share = "all the time" if was_running else "for some of the time only"
    before, after = quiet.percentile(0.99) * 1e3, busy.percentile(0.99) * 1e3
    table.add(
        "produce p99 while another log is cleaned",
        f"{after:.2f} ms ({share}); p50 {busy.percentile(0.5) * 1e3:.2f} ms",
        f"{before:.2f} ms; p50 {quiet.percentile(0.5) * 1e3:.2f} ms",
        ratio=after / before,
        at_most=2.0 if was_running else None,
    )


def _produced(server: processes.Server, requests: int) -> generators.Run:
    """Produce single messages with acks=all, a few hundred a second."""
    frame = frames.produce(frames.batch(1, 200), acks=-1)
    received = memoryview(bytearray(1 << 16))
    latencies: list[float] = []
    started = time.perf_counter()
    with generators.connect(server.port) as connection:
        for _ in range(requests):
            sent = time.perf_counter()
            connection.sendall(frame)
            generators.read_answer(connection, received)
            latencies.append(time.perf_counter() - sent)
            time.sleep(PRODUCE_INTERVAL_S)
    return generators.Run(requests, time.perf_counter() - started, latencies)


def _is_running(server: processes.Server) -> bool:
    url = f"http://127.0.0.1:{server.http_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return b"\ntidelog_cleaner_running 1.0" in answer.read()
