"""The wounded Kafka directories of tests/data/kafka-damaged, and what a broker serves of them."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from broker.clock import ManualClock
from broker.storage.log_config import LogConfig
from broker.storage.log_directory import LogDirectory
from broker.storage.os_disk import OsDisk
from broker.storage.partition_log import PartitionLog
from protocol.errors import CorruptMessageError
from protocol.identifiers import TopicPartition
from protocol.record_batch import check_batch, iterate_batches, iterate_records
from tests.support.log_storage import NOW_MS

DATA = Path(__file__).resolve().parents[1] / "data" / "kafka-damaged"
CASES: dict[str, Any] = json.loads((DATA / "cases.json").read_text())
STARTS = ("clean", "unclean", "unclean-from-0")
"""As Kafka was started on them: with its clean marker; without; and with a recovery point of 0."""

RECOVERY_POINTS = {"victim-0": 134, "codecs-0": 328}
Run = tuple[int, int]


@cache
def truth(partition: str) -> dict[int, int]:
    """Offset and timestamp of each record that was in the log before it was wounded."""
    lines = gzip.decompress((DATA / f"{partition}.jsonl.gz").read_bytes()).splitlines()
    return {row["offset"]: row["timestamp"] for row in map(json.loads, lines)}


@cache
def true_records(partition: str) -> dict[int, tuple[int, bytes | None, bytes | None]]:
    """Timestamp, key and value by offset, from the sound files."""
    found = {}
    for path in sorted((DATA / "base" / partition).glob("*.log")):
        found |= _records(path.read_bytes())
    assert {offset: record[0] for offset, record in found.items()} == truth(partition)
    return found


def _records(data: bytes) -> dict[int, tuple[int, bytes | None, bytes | None]]:
    """Decode whole batches, each with its CRC checked, as any client does."""
    found = {}
    for position, header in iterate_batches(data):
        check_batch(data[position : position + header.size_bytes])
        for record in iterate_records(data, position):
            found[record.offset] = (record.timestamp, record.key, record.value)
    return found


def laid_out(case: str, start: str, directory: Path) -> Path:
    """Make the directory of a case, as its broker would find it."""
    partition = CASES[case]["partition"]
    shutil.copytree(DATA / "base" / partition, directory / partition)
    for name in ("meta.properties", "log-start-offset-checkpoint"):
        shutil.copy(DATA / "base" / name, directory / name)
    point = 0 if start == "unclean-from-0" else RECOVERY_POINTS[partition]
    (directory / "recovery-point-offset-checkpoint").write_text(
        f"0\n1\n{partition.replace('-', ' ')} {point}\n"
    )
    if (DATA / "cases" / case).is_dir():
        shutil.copytree(DATA / "cases" / case, directory, dirs_exist_ok=True)
    for name in CASES[case]["removed"]:
        (directory / partition / name).unlink()
    if start == "clean":
        (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":209}')
    return directory


@dataclass
class Seen:
    """What a consumer and an operator see of one case."""

    log_start: int
    log_end: int
    served: list[Run] = field(default_factory=list)
    """Runs of offsets, from the start on, around what is refused."""
    refused: list[Run] = field(default_factory=list)
    """Runs of offsets that answer CORRUPT_MESSAGE, each named in the answer."""
    wrong: list[int] = field(default_factory=list)
    """Offsets with another record than was written, by any way of reading."""
    missed: list[tuple[Any, ...]] = field(default_factory=list)
    """Look-ups, by offset or by time, with another answer than a scan of the served records."""
    damage: list[Run] = field(default_factory=list)
    events: set[str] = field(default_factory=set)
    """What the broker's log says."""
    files: list[str] = field(default_factory=list)


def started(directory: Path) -> LogDirectory:
    """Start the storage engine on a directory."""
    config = LogConfig(retention_ms=-1, segment_ms=1 << 50)
    return LogDirectory.open(OsDisk(), directory, ManualClock(NOW_MS), lambda topic: config)


def observe(directory: Path, case: str, *, seek_first: bool = False) -> Seen:
    """Start, read everything in every way, stop in order.

    Args:
        seek_first: Look offsets up before the first sequential read, for wounds that nobody knows
            of yet are found by whoever comes first; and leave look-ups by time out.
    """
    name = CASES[case]["partition"]
    topic, _, number = name.rpartition("-")
    with capture_logs() as events:
        opened = started(directory)
        log = opened.logs[TopicPartition(topic, int(number))]
        seen = Seen(log.log_start_offset, log.log_end_offset)
        if seek_first:
            _seek(log, seen, true_records(name))
        _read_all(log, seen, true_records(name))
        _seek(log, seen, true_records(name))
        if not seek_first:
            _look_up_times(log, seen, truth(name))
        seen.damage = [(each.first_offset, each.next_offset - 1) for each in log.damage]
        opened.close()
    seen.events = {each["event"] for each in events}
    seen.files = sorted(path.name for path in (directory / name).iterdir())
    return seen


def _read_all(log: PartitionLog, seen: Seen, expected: dict[int, Any]) -> None:
    offset, offsets = log.log_start_offset, []
    while offset < log.high_watermark:
        try:
            data = b"".join(piece.read() for piece in log.read(offset, 1 << 20).slices)
        except CorruptMessageError:
            (wound,) = [each for each in log.damage if each.holds(offset)]
            seen.refused.append((offset, wound.next_offset - 1))
            offset = wound.next_offset
            continue
        found = {at: record for at, record in _records(data).items() if at >= offset}
        if not found:
            break
        seen.wrong += [at for at, record in found.items() if expected.get(at) != record]
        offsets += list(found)
        offset = max(found) + 1
    seen.served = runs(offsets)


def _seek(log: PartitionLog, seen: Seen, expected: dict[int, Any]) -> None:
    for offset in range(log.log_start_offset, log.high_watermark):
        try:
            data = b"".join(piece.read() for piece in log.read(offset, 1).slices)
        except CorruptMessageError:
            if not any(each.holds(offset) for each in log.damage):
                seen.missed.append(("seek", offset, "refused"))
            continue
        found = {at: record for at, record in _records(data).items() if at >= offset}
        if not found or min(found) != offset:
            seen.missed.append(("seek", offset, min(found, default=None)))
        seen.wrong += [at for at, record in found.items() if expected.get(at) != record]


def _look_up_times(log: PartitionLog, seen: Seen, times: dict[int, int]) -> None:
    served = {at: times[at] for first, last in seen.served for at in range(first, last + 1)}
    behind = _first_behind(log, seen)
    for time in sorted({near for at in times.values() for near in (at, at + 1)} | {0}):
        wanted = next(((at_ms, at) for at, at_ms in served.items() if at_ms >= time), None)
        try:
            found = log.offset_for_timestamp(time)
        except CorruptMessageError:
            if wanted is not None and wanted[1] not in behind:
                seen.missed.append(("time", time, "refused"))
            continue
        if found != wanted:
            seen.missed.append(("time", time, found))


def _first_behind(log: PartitionLog, seen: Seen) -> set[int]:
    """Return the offsets of the first batch behind each wound: an answer that lies there may not
    be the first, for nobody knows how late the records in the wound are."""
    found: set[int] = set()
    for _, last in seen.refused:
        if last + 1 < log.high_watermark:
            data = b"".join(piece.read() for piece in log.read(last + 1, 1).slices)
            found |= _records(data).keys()
    return found


def runs(offsets: list[int]) -> list[Run]:
    """Return first and last of each run of consecutive numbers, in the order they came."""
    found: list[Run] = []
    for offset in offsets:
        if found and found[-1][1] == offset - 1:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found
