"""DurableOffsets: the file `durable-offsets` of a data directory, how far each log was fsynced.

It is what tells a torn tail from damage (design, "Crash recovery"): bytes at or above a log's
durable offset may be missing after a crash, bytes below it must be there. So a slot may say less
than was synced, and never more:

- it is raised after the sync that covers it returned, by a write without a sync: exact after
  kill -9, a lower bound after a power cut (`sync` each second keeps the bound close);
- it is there, durably and with offset 0, before a new partition is appended to;
- it is lowered, durably, *before* a log is cut below it (`DurableSlot.lower`);
- a log start that is checkpointed has a slot of its own (`log_start_key`), durable before that;
- the slot of a deleted partition is freed after its directory was renamed away; a crash between the
  two leaves a slot of a topic id that no partition has, which the next start drops.

The layout of the file: `protocol.stored.durable_offsets`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

import structlog

from broker.storage.disk import Disk, DiskFile, replace_file, write_whole
from protocol.errors import StoredFormatError
from protocol.stored.durable_offsets import (
    FREE_SLOT,
    SLOT_BYTES,
    decode,
    encode_header,
    encode_slot,
    slot_position,
)

_log = structlog.get_logger(__name__)


class DurableSlot:
    """The slot of one log."""

    __slots__ = ("_number", "_offsets")

    def __init__(self, offsets: DurableOffsets, number: int) -> None:
        self._offsets = offsets
        self._number = number

    def set(self, offset: int) -> None:
        """Note the log's durable offset; `DurableOffsets.write` takes it to the file."""
        self._offsets.set(self._number, offset)

    def lower(self, offset: int) -> None:
        """Set a smaller offset, durably on return: before anything below the old one is cut.

        Raises:
            OSError: it is not durable, so nothing may be cut.
        """
        self._offsets.set(self._number, offset)
        self._offsets.write_and_sync()


class DurableOffsets:
    """The open file, and its image in memory. The event loop owns it; only `sync` may leave it."""

    __slots__ = (
        "_dirty_end",
        "_dirty_start",
        "_file",
        "_free",
        "_image",
        "_owners",
        "_slots",
        "failure",
        "needs_sync",
        "path",
    )

    def __init__(self, disk: Disk, path: Path, offsets: Iterable[tuple[UUID, int, int]]) -> None:
        """Replace the file by one that holds exactly `offsets`: (topic id, partition, offset).

        Atomic, and durable on return.

        Raises:
            OSError: the file could not be written; the old one is still there.
        """
        self.path = path
        self._image = bytearray(encode_header())
        self._owners: list[tuple[bytes, int] | None] = []
        self._slots: dict[tuple[bytes, int], int] = {}
        self._free: list[int] = []
        self.failure: OSError | None = None
        """Why the last `write` has left something to be written."""
        self._dirty_start, self._dirty_end = 0, 0
        for topic_id, partition, offset in offsets:
            self.add(topic_id, partition, offset)
        replace_file(disk, path, bytes(self._image))
        self._file: DiskFile = disk.open(path)
        self._dirty_start, self._dirty_end = 0, 0
        self.needs_sync = False

    def add(self, topic_id: UUID, partition: int, offset: int) -> DurableSlot:
        """Give a log a slot, or find the one it has, and set its offset."""
        owner = (topic_id.bytes, partition)
        slot = self._slots.get(owner)
        if slot is None:
            if self._free:
                slot = self._free.pop()
            else:
                slot = len(self._owners)
                self._owners.append(None)
                self._image += FREE_SLOT
            self._owners[slot] = owner
            self._slots[owner] = slot
        self.set(slot, offset)
        return DurableSlot(self, slot)

    def remove(self, topic_id: UUID, partition: int) -> None:
        """Free the slot of a deleted partition; one that has none is no error."""
        for number in (partition, -1 - partition):  # see `log_start_key`
            slot = self._slots.pop((topic_id.bytes, number), None)
            if slot is not None:
                self._owners[slot] = None
                self._free.append(slot)
                self._put(slot, FREE_SLOT)

    def set(self, slot: int, offset: int) -> None:
        """Note a log's durable offset; `write` takes it to the file."""
        owner = self._owners[slot]
        assert owner is not None, "the slot was freed"
        self._put(slot, encode_slot(owner[0], owner[1], offset))

    def _put(self, slot: int, data: bytes) -> None:
        start = slot_position(slot)
        end = start + SLOT_BYTES
        self._image[start:end] = data
        if self._dirty_start == self._dirty_end:
            self._dirty_start, self._dirty_end = start, end
            return
        if start < self._dirty_start:
            self._dirty_start = start
        if end > self._dirty_end:
            self._dirty_end = end

    def write(self) -> None:
        """Write what changed, by one call, without a sync; once after each flush group.

        What cannot be written (a full disk) stays to be written: the slots then say less than is
        true, which is allowed.
        """
        try:
            self.write_or_fail()
            self.failure = None
        except OSError as error:
            is_known, self.failure = self.failure is not None, error.with_traceback(None)
            if is_known:
                return  # said already: this comes with each group
            _log.warning(
                "durable offsets not written; they are written again with the next flush",
                path=str(self.path),
                error=error.strerror,
                out_of_space=error.errno in {errno.ENOSPC, errno.EDQUOT},
            )

    def write_or_fail(self) -> None:
        """Write what changed, without a sync.

        Raises:
            OSError: some of it is not written; it stays to be written.
        """
        start, end = self._dirty_start, self._dirty_end
        if start == end:
            return
        # A copy: as long as an error of this write is kept anywhere, so is what it was given, and
        # of a view that would keep the image from growing.
        write_whole(self._file, [self._image[start:end]], start)
        self._dirty_start = self._dirty_end = 0
        self.needs_sync = True

    def sync(self) -> None:
        """Make what was written durable; may be called in a thread.

        Raises:
            OSError: final, as of every fsync.
        """
        self.needs_sync = False
        self._file.sync()

    def write_and_sync(self) -> None:
        """Make everything that was set durable.

        Raises:
            OSError: it is not.
        """
        self.write_or_fail()
        self.sync()

    def close(self) -> None:
        """Write, sync and close.

        Raises:
            OSError: the offsets are not all durable.
        """
        try:
            self.write_and_sync()
        finally:
            self._file.close()


def log_start_key(topic_id: UUID, partition: int) -> tuple[UUID, int]:
    """Return the key of a partition's log start: a second slot, of a number no partition has.

    The checkpoint of log starts has no checksum. Where it is lost or garbled, this keeps records
    that their owner has deleted from coming back, and others from being hidden.
    """
    return topic_id, -1 - partition


def read_durable_offsets(disk: Disk, path: Path) -> dict[tuple[UUID, int], int]:
    """Return what the file says: (topic id, partition) to durable offset.

    A missing or unreadable file says nothing; damaged slots are left out.
    """
    try:
        slots = decode(disk.read_file(path))
    except FileNotFoundError:
        return {}
    except (OSError, StoredFormatError) as error:
        _log.warning("durable offsets are not readable", path=str(path), error=str(error))
        return {}
    offsets: dict[tuple[UUID, int], int] = {}
    for slot in slots:
        key = (slot.topic_id, slot.partition)
        offsets[key] = max(slot.durable_offset, offsets.get(key, 0))
    return offsets
