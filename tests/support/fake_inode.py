"""What one file of the fake disk is: the bytes that programs see, and those a power cut leaves."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

SECTOR_BYTES = 512
"""A disk writes a sector whole or not at all."""


class Write(NamedTuple):
    """Bytes in the page cache that no sync has covered."""

    position: int
    data: bytes


class Truncate(NamedTuple):
    """A change of size that no sync has covered."""

    size: int


class Inode:
    """A file's contents: `data` is the page cache's view, `durable` the device's.

    `pending` is what leads from the one to the other, in order. Truncations are ordered like a
    journal's entries: what comes after a lost one is lost too. Writes between two of them are not
    ordered at all.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.pending: list[Write | Truncate] = []
        self.modification_time_ms = 0
        self.written_bytes = 0
        """Up to where bytes were written, holes included: what it takes of the disk's space."""

    def __deepcopy__(self, _: object) -> Inode:
        other = Inode()
        other.data, other.durable = bytearray(self.data), bytearray(self.durable)
        other.pending = list(self.pending)
        other.modification_time_ms = self.modification_time_ms
        other.written_bytes = self.written_bytes
        return other

    def write(self, position: int, data: bytes) -> None:
        if not data:
            return
        self.pending.append(Write(position, data))
        apply(self.data, self.pending[-1])
        self.written_bytes = max(self.written_bytes, position + len(data))

    def truncate(self, size: int) -> None:
        self.pending.append(Truncate(size))
        apply(self.data, self.pending[-1])
        self.written_bytes = min(self.written_bytes, size)

    def sync(self) -> None:
        """Make everything durable."""
        for change in self.pending:
            apply(self.durable, change)
        self.pending.clear()

    def fail_sync(self, random: Random) -> None:
        """Do as Linux: some of it reached the device, and all pages count as clean from now on."""
        self.durable = self._after_power_cut(random)
        self.pending.clear()

    def drop_clean_pages(self) -> None:
        """Read from the device again what is not dirty: shows what a failed sync has lost."""
        size = len(self.data)
        self.data = bytearray(self.durable)
        for change in self.pending:
            apply(self.data, change)
        apply(self.data, Truncate(size))

    def cut_power(self, random: Random | None) -> None:
        """Lose some of what was not synced, or all of it without `random`."""
        if random is not None:
            self.durable = self._after_power_cut(random)
        self.pending.clear()
        self.data = bytearray(self.durable)
        self.written_bytes = len(self.data)

    def _after_power_cut(self, random: Random) -> bytearray:
        result = bytearray(self.durable)
        unordered: list[Write] = []
        for change in self.pending:
            if isinstance(change, Write):
                unordered.append(change)
                continue
            _apply_some(result, unordered, random)
            unordered = []
            if random.random() < 0.5:
                return result
            apply(result, change)
        _apply_some(result, unordered, random)
        return result


def apply(data: bytearray, change: Write | Truncate) -> None:
    """Carry out one change; a gap before a write becomes zeros."""
    if isinstance(change, Truncate):
        if change.size <= len(data):
            del data[change.size :]
        else:
            data.extend(bytes(change.size - len(data)))
        return
    if change.position > len(data):
        data.extend(bytes(change.position - len(data)))
    data[change.position : change.position + len(change.data)] = change.data


def _apply_some(data: bytearray, writes: list[Write], random: Random) -> None:
    """Keep, drop or tear each write, in any order."""
    for write in random.sample(writes, len(writes)):
        fate = random.choice(("kept", "dropped", "prefix", "sectors"))
        if fate == "kept":
            apply(data, write)
        elif fate == "prefix":
            _apply_prefix(data, write, random.randint(0, len(write.data)))
        elif fate == "sectors":
            _apply_sectors(data, write, random)


def _apply_prefix(data: bytearray, write: Write, kept_bytes: int) -> None:
    """Keep the first bytes; where the write goes over older bytes, whole sectors of it only."""
    end = write.position + kept_bytes
    if end < len(data):
        end = max(write.position, end - end % SECTOR_BYTES)
    if end > write.position:
        apply(data, Write(write.position, write.data[: end - write.position]))


def _apply_sectors(data: bytearray, write: Write, random: Random) -> None:
    """Keep some sectors; the file's size may have grown over the lost ones, which are zeros."""
    end = write.position + len(write.data)
    if random.random() < 0.5 and end > len(data):
        data.extend(bytes(end - len(data)))
    start = write.position
    while start < end:
        sector_end = min(end, start - start % SECTOR_BYTES + SECTOR_BYTES)
        if random.random() < 0.5:
            piece = write.data[start - write.position : sector_end - write.position]
            apply(data, Write(start, piece))
        start = sector_end
