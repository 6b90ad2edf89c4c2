"""Wounded logs: a log of small batches, what hurts it, and what can be read then."""

from __future__ import annotations

import json

from broker.storage.quarantine import REPORT_SUFFIX
from protocol.errors import CorruptMessageError
from protocol.stored.file_names import QUARANTINE_SUFFIX, log_file_name
from tests.support.log_storage import SMALL_SEGMENTS, LogStorage, batch, records_of

ONE = len(batch(b"0"))
LARGE_SEGMENTS = SMALL_SEGMENTS.__class__(
    segment_bytes=100_000, index_interval_bytes=100, segment_index_bytes=2_400
)


def filled(count: int = 12, *, large: bool = False) -> LogStorage:
    """The value of a record is its offset; segments from 0, 4, 8 on, or one."""
    storage = LogStorage(LARGE_SEGMENTS if large else SMALL_SEGMENTS)
    for number in range(count):
        storage.clock.advance(ms=1000)
        storage.append(b"%d" % number)
    storage.flush()
    storage.directory.durable_offsets.write_and_sync()
    return storage


def write(storage: LogStorage, base_offset: int, data: bytes, position: int) -> None:
    file = storage.disk.open(storage.path / log_file_name(base_offset))
    file.write([data], position)
    file.sync()


def wound(storage: LogStorage, base_offset: int, *batches: int) -> None:
    """Change a byte of a record in some batches of a segment."""
    for number in batches:
        write(storage, base_offset, b"\xff", number * ONE + 65)


def readable(storage: LogStorage) -> list[int]:
    """Every offset that is served, going on behind each wound where the answer says."""
    log, offset, found = storage.log, storage.log.log_start_offset, []
    while offset < log.high_watermark:
        try:
            records = [each for each, _ in records_of(log.read(offset, 1 << 20)) if each >= offset]
        except CorruptMessageError as error:
            offset = int(str(error).rsplit(" ", 1)[1])
            continue
        assert records, f"a reader hangs at {offset}"
        found += records
        offset = records[-1] + 1
    return found


def refused(storage: LogStorage) -> list[int]:
    found = []
    for offset in range(storage.log.high_watermark):
        try:
            assert records_of(storage.log.read(offset, 1))[0][0] == offset
        except CorruptMessageError:
            found.append(offset)
    return found


def quarantined(storage: LogStorage) -> list[str]:
    return [name for name in storage.names() if name.endswith((QUARANTINE_SUFFIX, REPORT_SUFFIX))]


def reports(storage: LogStorage) -> list[dict[str, object]]:
    return [
        json.loads(storage.disk.read_file(storage.path / name))
        for name in storage.names()
        if name.endswith(REPORT_SUFFIX)
    ]
