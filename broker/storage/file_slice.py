"""FileSlice: a piece of a log file, as a fetch answers with: where bytes are, not the bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from broker.storage.disk import storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.storage.file_records import FileRecords
    from protocol.identifiers import Buffer

READ_AHEAD_STEP_BYTES: Final = 1024 * 1024


class Sink(Protocol):
    """What bytes are handed to: an asyncio or uvloop transport. It accepts all of them."""

    def write(self, data: Buffer, /) -> None: ...

    def writelines(self, list_of_data: Iterable[Buffer], /) -> None: ...


class FileSlice(msgspec.Struct, frozen=True):
    """`size_bytes` bytes of a set from `position` on."""

    records: FileRecords
    position: int
    size_bytes: int

    def buffers(self, *, mapped: bool) -> list[Buffer]:
        """Return all of the bytes: a view of the file's mapping, bytes read, or one and one.

        Args:
            mapped: Use mappings where there are any, for the kernel's eyes only. Not under plain
                asyncio, TLS or for conversion: those touch the bytes in this process.

        Raises:
            StorageError: the set or the file is shorter than this, or cannot be read.
        """
        records, position, size = self.records, self.position, self.size_bytes
        if not size:
            return []
        if not mapped:
            return [records.read_exactly(position, size)]
        start = records.start + position
        mapping = records.mapping(size)
        if start >= len(mapping):
            return [records.read_exactly(position, size)]
        records.check_holds(position + size)  # or the kernel would stop in the middle of an answer
        if start + size <= len(mapping):
            return [mapping[start : start + size]]
        mapped_bytes = len(mapping) - start
        rest = records.read_exactly(position + mapped_bytes, size - mapped_bytes)
        return [mapping[start:], rest]

    def write_to(self, sink: Sink, *, mapped: bool) -> int:
        """Hand all of the bytes to a transport; return how many. Errors as in `buffers`."""
        buffers = self.buffers(mapped=mapped)
        if len(buffers) == 1:
            sink.write(buffers[0])
        elif buffers:
            sink.writelines(buffers)  # plain asyncio joins them, uvloop does not
        return self.size_bytes

    def read(self) -> bytes:
        """Return all of the bytes, by pread. Raises StorageError as `buffers` does."""
        return self.records.read_exactly(self.position, self.size_bytes)

    def is_cold(self) -> bool:
        """Whether some of it would have to come from the device; False where nobody knows."""
        with storage_errors("read", self.records.path):
            start = self.records.start + self.position
            return not self.records.file().is_cached(start, self.size_bytes)

    def read_ahead(self) -> None:
        """Bring all of it into the page cache: blocks, is for a thread.

        It opens the file for itself, for the handle cache is not made for threads.

        Raises:
            StorageError: the device cannot read it. A file deleted meanwhile is no error.
        """
        start = self.records.start + self.position
        buffer = memoryview(bytearray(min(self.size_bytes, READ_AHEAD_STEP_BYTES)))
        with storage_errors("read", self.records.path):
            try:
                file = self.records.handles.disk.open(self.records.path, read_only=True)
            except FileNotFoundError:
                return
            try:
                for done in range(0, self.size_bytes, READ_AHEAD_STEP_BYTES):
                    file.read_into(buffer[: self.size_bytes - done], start + done)
            finally:
                file.close()
