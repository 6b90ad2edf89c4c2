"""A log that is a list of batches in memory, read as a PartitionLog is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from broker.storage.offset_metadata import FetchData, LogOffsetMetadata
from protocol.errors import OffsetOutOfRangeError
from protocol.legacy_message_set import check_entry
from protocol.record_batch import MAGIC, parse_header


@dataclass
class MemorySlice:
    """What a FileSlice is to a conversion."""

    data: bytes
    cold: bool = False
    read_aheads: int = 0

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def read(self) -> bytes:
        assert not self.cold, "read on the loop before it was read ahead"
        return self.data

    def is_cold(self) -> bool:
        return self.cold

    def read_ahead(self) -> None:
        self.cold = False
        self.read_aheads += 1


class BatchLog:
    """Batches or legacy entries, each with its offsets; `read` gives whole ones."""

    def __init__(self, batches: Sequence[bytes], *, cold: bool = False) -> None:
        self.batches = [bytes(batch) for batch in batches]
        self.cold = cold
        self.reads: list[tuple[int, int]] = []
        self.slices: list[MemorySlice] = []
        self.log_start_offset = 0

    @property
    def log_end_offset(self) -> int:
        return last_offset(self.batches[-1]) + 1 if self.batches else 0

    def read(self, offset: int, max_bytes: int, **_: Any) -> FetchData:
        self.reads.append((offset, max_bytes))
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.log_end_offset)
        taken = b""
        for batch in self.batches:
            if last_offset(batch) < offset:
                continue
            if taken and len(taken) + len(batch) > max_bytes:
                break
            taken += batch
        piece = MemorySlice(taken, self.cold)
        self.slices.append(piece)
        pieces: Any = (piece,) if taken else ()
        return FetchData(LogOffsetMetadata(offset), pieces, len(taken))


def last_offset(batch: bytes) -> int:
    """The last offset of a record batch or legacy entry."""
    if batch[16] == MAGIC:
        return parse_header(batch).last_offset
    return check_entry(batch).offset
