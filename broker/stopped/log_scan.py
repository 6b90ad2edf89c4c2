"""LogScan: every entry of a log file with its bytes checked, damaged ones included.

Record batches and legacy entries may follow one another in one file. After an entry whose length is
believable the scan goes on behind it, whatever is wrong inside; where no length can be believed it
goes on with the next record batch that is sound.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from protocol.compression import Codec
from protocol.errors import BatchTruncatedError, CorruptMessageError, TidelogError
from protocol.legacy_message_set import (
    LegacyEntry,
    check_entry,
    entry_magic,
    iterate_entry_records,
    parse_entry,
)
from protocol.limits import INT32_MAX
from protocol.record import Record
from protocol.record_batch import check_batch, iterate_records
from protocol.record_batch_header import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    parse_header,
)
from protocol.stored.file_names import parse_file_name

WINDOW_BYTES: Final = 1024 * 1024
HEADER_BYTES_MAX: Final = 64
"""Enough for the header of any entry."""

Header: TypeAlias = BatchHeader | LegacyEntry


@dataclass(frozen=True, slots=True)
class ScannedEntry:
    """One batch or legacy entry, or what stands where one should begin."""

    position: int
    size_bytes: int
    """Whole; where no length can be believed, up to the next sound batch or the end of the file."""
    header: Header | None
    """None where it cannot be parsed."""
    data: bytes
    """The entry's bytes; empty where it is cut or not parsed."""
    problem: str = ""
    """What is wrong; empty if nothing is."""
    is_cut: bool = False
    """The file ends inside it: normal for the last file after a crash only."""

    @property
    def first_offset(self) -> int:
        """Of a legacy wrapper, that of its last message (only the inside tells the first)."""
        header = self.header
        assert header is not None
        return header.base_offset if isinstance(header, BatchHeader) else header.offset

    @property
    def last_offset(self) -> int:
        header = self.header
        assert header is not None
        return header.last_offset if isinstance(header, BatchHeader) else header.offset

    @property
    def max_timestamp(self) -> int:
        header = self.header
        assert header is not None
        return header.max_timestamp if isinstance(header, BatchHeader) else header.timestamp

    @property
    def record_count(self) -> int | None:
        """None for a legacy wrapper: only its inside tells."""
        if isinstance(self.header, BatchHeader):
            return self.header.record_count
        assert self.header is not None
        return 1 if self.header.codec_bits == Codec.NONE else None

    def records(self) -> Iterator[Record]:
        """Decode the records.

        Raises:
            TidelogError: at once or while iterating: they do not decode.
        """
        if isinstance(self.header, BatchHeader):
            yield from iterate_records(self.data)
        elif self.header is not None:
            yield from iterate_entry_records(self.data, parse_entry(self.data))


class LogScan:
    """A log file, read forward in windows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("rb", buffering=0)
        self.size_bytes = os.fstat(self._file.fileno()).st_size
        self._window, self._window_position = b"", 0
        name = parse_file_name(path.name)
        self._base_offset = 0 if name is None else int(name.base_offset)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> LogScan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def entries(self) -> Iterator[ScannedEntry]:
        """Yield every entry, in the order of the file; the last may be cut or unreadable.

        Raises:
            OSError: the disk cannot read the file.
        """
        position = 0
        while position < self.size_bytes:
            entry = self._entry(position)
            yield entry
            position += entry.size_bytes

    def _entry(self, position: int) -> ScannedEntry:
        head = self._read(min(HEADER_BYTES_MAX, self.size_bytes - position), position)
        left = self.size_bytes - position
        try:
            header: Header = parse_header(head) if entry_magic(head) == MAGIC else parse_entry(head)
        except BatchTruncatedError:
            return ScannedEntry(position, left, None, b"", "the file ends inside it", is_cut=True)
        except CorruptMessageError as error:
            return self._unreadable(position, head, error.reason)
        if header.size_bytes > left:
            missing = header.size_bytes - left
            text = f"the file ends inside it, {missing} bytes are missing"
            after = self._sound_after(position)
            if after < self.size_bytes:  # then its length is wrong
                return ScannedEntry(position, after - position, None, b"", text)
            return ScannedEntry(position, left, header, b"", text, is_cut=True)
        data = self._read(header.size_bytes, position)
        problem = ""
        try:
            if isinstance(header, BatchHeader):
                check_batch(data)
            else:
                check_entry(data)
        except CorruptMessageError as error:
            problem = error.reason
        return ScannedEntry(position, header.size_bytes, header, data, problem)

    def _unreadable(self, position: int, head: bytes, reason: str) -> ScannedEntry:
        """Return an entry without a header: as long as its size field says, if that leads to
        another entry or to the end exactly; else up to the next sound batch, or to the end."""
        left = self.size_bytes - position
        size = LOG_OVERHEAD_BYTES + int.from_bytes(head[8:12], "big", signed=True)
        if LOG_OVERHEAD_BYTES < size <= min(left, INT32_MAX) and self._starts_entry(
            position + size
        ):
            return ScannedEntry(position, size, None, b"", reason)
        return ScannedEntry(position, self._sound_after(position) - position, None, b"", reason)

    def _sound_after(self, position: int) -> int:
        """Return where the next sound record batch begins; the end of the file if there is none."""
        position += 1
        while position + HEADER_BYTES <= self.size_bytes:
            window = self._read(min(WINDOW_BYTES, self.size_bytes - position), position)
            index = window.find(MAGIC, MAGIC_POSITION)
            while index >= 0:
                start = position + index - MAGIC_POSITION
                if self._is_sound(start):
                    return start
                index = window.find(MAGIC, index + 1)
            position += max(len(window) - MAGIC_POSITION, 1)
        return self.size_bytes

    def _is_sound(self, position: int) -> bool:
        if position + HEADER_BYTES > self.size_bytes:
            return False
        try:
            header = parse_header(self._read(HEADER_BYTES, position))
            is_of_this_file = 0 <= header.base_offset - self._base_offset <= INT32_MAX
            if not is_of_this_file or header.size_bytes > self.size_bytes - position:
                return False
            check_batch(self._read(header.size_bytes, position))
        except CorruptMessageError:
            return False
        return True

    def _starts_entry(self, position: int) -> bool:
        if position == self.size_bytes:
            return True
        head = self._read(min(HEADER_BYTES_MAX, self.size_bytes - position), position)
        try:
            header: Header = parse_header(head) if entry_magic(head) == MAGIC else parse_entry(head)
        except TidelogError:
            return False
        return header.size_bytes <= self.size_bytes - position

    def _read(self, size: int, position: int) -> bytes:
        start = position - self._window_position
        if start < 0 or start + size > len(self._window):
            self._window = os.pread(self._file.fileno(), max(size, WINDOW_BYTES), position)
            self._window_position, start = position, 0
        return self._window[start : start + size]
