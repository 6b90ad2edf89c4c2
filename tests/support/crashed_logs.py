"""Crashed logs: a log of small batches, and what changes its files behind its back."""

from __future__ import annotations

from protocol.stored.file_names import DURABLE_OFFSETS
from tests.support.log_storage import ROOT, SMALL_SEGMENTS, LogStorage, batch

ONE = len(batch(b"0"))
SLOTS = ROOT / DURABLE_OFFSETS


def filled(count: int = 9, *, flushed: bool = True) -> LogStorage:
    """Segments from 0, 4 and 8 on; the value of a record is its offset."""
    storage = LogStorage(SMALL_SEGMENTS)
    for number in range(count):
        storage.append(b"%d" % number)
    if flushed:
        storage.flush()
    return storage


def expected(start: int, end: int) -> list[tuple[int, bytes]]:
    return [(offset, b"%d" % offset) for offset in range(start, end)]


def write(storage: LogStorage, name: str, data: bytes, position: int = 0) -> None:
    """Change a file of the partition behind the broker's back, durably."""
    file = storage.disk.open(storage.path / name, create=True)
    file.write([data], position)
    file.sync()
    file.close()
    storage.disk.sync_directory(storage.path)
