"""LogWalk: a whole log file as runs of sound batches, entries of old formats, and what is damaged.

Every byte of the file is in one of them. Behind damage it goes on where a length can be believed,
because another batch or entry begins there; else with the next sound batch, looked for byte by
byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from protocol.checksum import crc32c
from protocol.errors import BatchTruncatedError, CorruptMessageError, TidelogError
from protocol.legacy_message_set import LegacyEntry, check_entry, entry_magic, parse_entry
from protocol.limits import INT32_MAX
from protocol.record_batch import check_batch
from protocol.record_batch_header import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    parse_header,
)
from tidelog.segments.batch_table import (
    BATCH_BYTES_MAX,
    BATCH_DTYPE,
    BatchTable,
    WalkedBatches,
    walk,
    wrong_crcs,
)
from tidelog.segments.log_window import LogWindow

__all__ = ["Batches", "Damage", "OldEntry", "Piece", "walk_log"]

HEAD_BYTES: Final = 64
"""Enough for the header of any entry."""
REST_BYTES: Final = 64 * 1024
"""With less than this left in the window it is filled anew: a batch of usual size is whole then."""
SCAN_BYTES: Final = 1024 * 1024
NOTHING: Final = WalkedBatches(np.empty(0, dtype=BATCH_DTYPE), 0, "an old format")
"""What a walk would say of entries of old formats, at fifty times the price of asking for one."""


class Batches(NamedTuple):
    """Sound batches, one behind the other: header, CRC, and that offsets go up."""

    position: int
    """Of `data` in the file."""
    data: memoryview
    """Valid until the next piece is asked for."""
    table: BatchTable
    """Its positions are of `data`."""


class OldEntry(NamedTuple):
    """A sound entry of message format 0 or 1."""

    position: int
    data: memoryview
    """Valid until the next piece is asked for."""
    entry: LegacyEntry


class Damage(NamedTuple):
    """Bytes that are no sound batch."""

    position: int
    size_bytes: int
    reason: str
    first_offset: int | None = None
    """As its header says, where all but the CRC is believable."""
    last_offset: int | None = None


Piece: TypeAlias = Batches | OldEntry | Damage


def walk_log(window: LogWindow, base_offset: int) -> Iterator[Piece]:
    """Yield the pieces of a log file in their order.

    Args:
        base_offset: The file's: a batch behind damage is taken for one only if it can be of it.
    """
    position, rest_bytes = 0, min(REST_BYTES, window.window_bytes)
    while position < window.size_bytes:
        data = window.view(position, rest_bytes)
        is_old = len(data) > MAGIC_POSITION and data[MAGIC_POSITION] < MAGIC
        walked = NOTHING if is_old else walk(data)
        if not len(walked.table) and walked.fault is None:  # larger than the window, or cut
            data = _grown(window, position, data)
            walked = walk(data)
        if not len(walked.table):
            piece = _odd_one(window, position, base_offset)
            yield piece
            position = _end(piece)
            continue
        for run in _runs(position, data, walked.table):
            piece = run
            if isinstance(run, Damage) and _end(run) == position + walked.end_position:
                piece = _confirmed(window, run, base_offset)
            yield piece
        position = _end(piece)


def _end(piece: Piece) -> int:
    if isinstance(piece, Damage):
        return piece.position + piece.size_bytes
    if isinstance(piece, OldEntry):
        return piece.position + piece.entry.size_bytes
    last = piece.table[-1]
    return piece.position + int(last["position"]) + int(last["size_bytes"])


def _grown(window: LogWindow, position: int, data: memoryview) -> memoryview:
    """Return a view that holds the batch at its begin whole, if the file does."""
    if len(data) < HEADER_BYTES:
        return data
    size = LOG_OVERHEAD_BYTES + int.from_bytes(data[8:12], "big", signed=True)
    is_there = size <= min(window.size_bytes - position, BATCH_BYTES_MAX)
    return window.view(position, size) if is_there else data


def _runs(position: int, data: memoryview, table: BatchTable) -> Iterator[Batches | Damage]:
    """Yield the batches of a table, those with a wrong CRC each by itself."""
    begin = 0
    for number in wrong_crcs(data, table).tolist():
        if number > begin:
            yield Batches(position, data, table[begin:number])
        yield _wrong_crc(position, data, table[number])
        begin = number + 1
    if begin < len(table):
        yield Batches(position, data, table[begin:])


def _wrong_crc(position: int, data: memoryview, row: Any) -> Damage:
    start, size = int(row["position"]), int(row["size_bytes"])
    found = crc32c(data[start + ATTRIBUTES_POSITION : start + size])
    reason = f"crc {int(row['crc']):#010x} does not match {found:#010x}"
    return Damage(position + start, size, reason, int(row["base_offset"]), int(row["last_offset"]))


def _odd_one(window: LogWindow, position: int, base_offset: int) -> Piece:
    """Return what stands where the walk over many batches does not get on."""
    head = window.at_least(position, HEAD_BYTES)
    left = window.size_bytes - position
    try:
        header = _header(head)
    except BatchTruncatedError:
        return Damage(position, left, "the file ends inside it")
    except CorruptMessageError as error:
        return _unreadable(window, Damage(position, left, error.reason), head, base_offset)
    if header.size_bytes > left:
        reason = f"the file ends inside it, {header.size_bytes - left} bytes are missing"
        return _up_to_sound(window, Damage(position, left, reason), base_offset)
    if header.size_bytes > BATCH_BYTES_MAX:
        reason = f"its {header.size_bytes} bytes are more than any batch has"
        return _up_to_sound(window, Damage(position, left, reason), base_offset)
    data = window.view(position, header.size_bytes)[: header.size_bytes]
    try:
        if isinstance(header, LegacyEntry):
            return OldEntry(position, data, check_entry(data))
        check_batch(data)
    except CorruptMessageError as error:
        damage = Damage(position, header.size_bytes, error.reason)
        return _confirmed(window, damage, base_offset)
    walked = walk(data)
    if len(walked.table):
        return Batches(position, data, walked.table)
    return Damage(position, header.size_bytes, walked.fault or "its header cannot be")


def _header(head: bytes) -> BatchHeader | LegacyEntry:
    return parse_header(head) if entry_magic(head) == MAGIC else parse_entry(head)


def _unreadable(window: LogWindow, damage: Damage, head: bytes, base_offset: int) -> Damage:
    """Return damage whose header is wrong, as long as its size field says if that can be."""
    size = LOG_OVERHEAD_BYTES + int.from_bytes(head[8:12], "big", signed=True)
    if LOG_OVERHEAD_BYTES < size <= damage.size_bytes:
        return _confirmed(window, damage._replace(size_bytes=size), base_offset)
    return _up_to_sound(window, damage, base_offset)


def _confirmed(window: LogWindow, damage: Damage, base_offset: int) -> Damage:
    """Return the damage as it is if an entry begins behind it, else up to the next sound batch."""
    if _begins_entry(window, _end(damage)):
        return damage
    return _up_to_sound(window, damage, base_offset)


def _up_to_sound(window: LogWindow, damage: Damage, base_offset: int) -> Damage:
    """Return the damage as far as the next sound batch."""
    after = _sound_after(window, damage.position, base_offset)
    return Damage(damage.position, after - damage.position, damage.reason)


def _begins_entry(window: LogWindow, position: int) -> bool:
    left = window.size_bytes - position
    if not left:
        return True
    try:
        return _header(window.at_least(position, HEAD_BYTES)).size_bytes <= left
    except TidelogError:
        return False


def _sound_after(window: LogWindow, position: int, base_offset: int) -> int:
    """Return where the next sound record batch begins; the end of the file if there is none."""
    position += 1
    while position + HEADER_BYTES <= window.size_bytes:
        data = window.at_least(position, SCAN_BYTES)
        index = data.find(MAGIC, MAGIC_POSITION)
        while index >= 0:
            start = position + index - MAGIC_POSITION
            if _is_sound(window, start, base_offset):
                return start
            index = data.find(MAGIC, index + 1)
        position += max(len(data) - MAGIC_POSITION, 1)
    return window.size_bytes


def _is_sound(window: LogWindow, position: int, base_offset: int) -> bool:
    try:
        header = parse_header(window.at_least(position, HEADER_BYTES))
        is_of_this_file = 0 <= header.base_offset - base_offset <= INT32_MAX
        bytes_max = min(window.size_bytes - position, BATCH_BYTES_MAX)
        if not is_of_this_file or header.size_bytes > bytes_max:
            return False
        check_batch(window.at_least(position, header.size_bytes))
    except CorruptMessageError:
        return False
    return True
