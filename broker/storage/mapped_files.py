"""MappedFiles: few read-only mappings for many files, so that bytes go out without a copy.

Only the kernel may touch mapped bytes (a bad sector would be SIGBUS for the process, but is an
error for a system call); Python hands on views of them and reads with `pread`. A mapping is never
closed: dropping it here leaves the views that a transport still holds whole, and the last of them
unmaps it. Before Python 3.13 each mapping holds a file descriptor, so their bound counts as such.

What is sent from a mapping becomes part of the process's resident memory, page by page, although it
is only the page cache seen once more; a reader of some gigabytes would have the broker look as
large. So the pages are given back each time some megabytes were lent: that forgets where they are,
not what is in them, and costs 1 or 2 % of the sending.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from broker.storage.disk import DiskFile

MAPPING_STEP_BYTES: Final = 16 * 1024 * 1024
"""A growing file is mapped anew each time it has grown by this much."""
LENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of all files together, before their pages are given back."""

NO_MAPPING: Final = memoryview(b"")


class MappedFiles:
    """A bounded cache of mappings, least recently used out first; by any key that is the file's."""

    __slots__ = ("_lent", "_lent_bytes", "_mappings", "mapped_files_max")

    def __init__(self, mapped_files_max: int) -> None:
        """Args:
        mapped_files_max: 0 maps nothing.
        """
        self.mapped_files_max = mapped_files_max
        self._mappings: OrderedDict[Hashable, memoryview] = OrderedDict()
        self._lent: set[Hashable] = set()
        """The files with pages that may be resident."""
        self._lent_bytes = 0

    def __len__(self) -> int:
        return len(self._mappings)

    def mapping(
        self, key: Hashable, size_bytes: int, open_file: Callable[[], DiskFile], *, is_sealed: bool
    ) -> memoryview:
        """Return a mapping of the file's first bytes; empty where it cannot be mapped.

        Args:
            size_bytes: What is written; never is more mapped. A sealed file is mapped to there, a
                growing one to the last whole step.
            open_file: Called if a new mapping is needed; may raise OSError.
        """
        wanted_bytes = size_bytes if is_sealed else size_bytes - size_bytes % MAPPING_STEP_BYTES
        mapping = self._mappings.get(key)
        if mapping is not None and len(mapping) == wanted_bytes:
            self._mappings.move_to_end(key)
            return mapping
        if not wanted_bytes or not self.mapped_files_max:
            return NO_MAPPING
        mapping = open_file().map(wanted_bytes)
        if mapping is None:
            return NO_MAPPING
        self._mappings[key] = mapping
        self._mappings.move_to_end(key)
        while len(self._mappings) > self.mapped_files_max:
            self._mappings.popitem(last=False)
        return mapping

    def lend(self, key: Hashable, size_bytes: int) -> None:
        """Take note that so many bytes of the file's mapping are going to be sent."""
        self._lent.add(key)
        self._lent_bytes += size_bytes
        if self._lent_bytes >= LENT_BYTES_MAX:
            self._give_pages_back()

    def _give_pages_back(self) -> None:
        """Let the kernel forget the pages; those that a transport is yet to send come back."""
        for key in self._lent:
            mapping = self._mappings.get(key, NO_MAPPING)
            if isinstance(mapping.obj, mmap.mmap):
                mapping.obj.madvise(mmap.MADV_DONTNEED)
        self._lent.clear()
        self._lent_bytes = 0

    def shrink(self) -> None:
        """Drop half of the mappings: the process is out of descriptors."""
        for _ in range(-(-len(self._mappings) // 2)):
            self._mappings.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        """Drop the file's mapping, if there is one: the file was cut, closed or deleted."""
        self._mappings.pop(key, None)
