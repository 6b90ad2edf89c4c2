"""Wounds: what a disk or an operator may do to one file, and which records that may cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from protocol.record_batch import iterate_batches
from tests.crash.oracle import Wound
from tests.support.fake_disk import FakeDisk

PAGE_BYTES: Final = 64
"""The files here are small, and so are their pages."""


class Change(NamedTuple):
    """A file's new contents, and from where to where they differ; to the end if it was cut."""

    data: bytes
    start: int
    end: int


def flip_bit(data: bytes, random: Random) -> Change:
    position = random.randrange(len(data))
    wounded = bytearray(data)
    wounded[position] ^= 1 << random.randrange(8)
    return Change(bytes(wounded), position, position + 1)


def zero_page(data: bytes, random: Random) -> Change:
    start = random.randrange(len(data)) // PAGE_BYTES * PAGE_BYTES
    end = min(start + PAGE_BYTES, len(data))
    return Change(data[:start] + bytes(end - start) + data[end:], start, end)


def duplicate_page(data: bytes, random: Random) -> Change:
    """One page has the bytes of another."""
    pages = max(1, len(data) // PAGE_BYTES)
    source = random.randrange(pages) * PAGE_BYTES
    start = random.randrange(pages) * PAGE_BYTES
    copy = data[source : source + PAGE_BYTES]
    end = min(start + len(copy), len(data))
    return Change(data[:start] + copy[: end - start] + data[end:], start, end)


def truncate(data: bytes, random: Random) -> Change:
    size = random.randrange(len(data))
    return Change(data[:size], size, len(data))


WOUNDS: Final[dict[str, Callable[[bytes, Random], Change]]] = {
    "flipped bit": flip_bit,
    "zeroed page": zero_page,
    "duplicated page": duplicate_page,
    "truncation": truncate,
}


def wound_file(disk: FakeDisk, path: Path, wound: str, random: Random) -> Wound:
    """Change a file durably; return the offsets that it may cost: of its batches, if it has any."""
    data = disk.read_file(path)
    change = WOUNDS[wound](data, random)
    file = disk.open(path)
    file.truncate(0)
    file.write([change.data], 0)
    file.sync()
    file.close()
    if path.suffix != ".log":
        return Wound(0, 0)
    touched = [
        Wound(header.base_offset, header.next_offset)
        for position, header in iterate_batches(data)
        if position < change.end and position + header.size_bytes > change.start
    ]
    return Wound(touched[0].first_offset, touched[-1].next_offset)
