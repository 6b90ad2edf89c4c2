"""Timestamp search: the first record of one batch or legacy entry that is late enough (R33)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.steps import SLICE_MESSAGES, Steps
from broker.storage.entry_walk import EntryHeader
from protocol import legacy_message_set, limits, record_batch
from protocol.errors import MessageTooLargeError
from protocol.simple_set_reader import (
    INLINE_COMPRESSED_BYTES_MAX,
    INLINE_DECOMPRESSED_BYTES_MAX,
)

INLINE_PLAIN_BYTES_MAX: Final = 1024 * 1024
"""The CRC of so much, and a copy, take about a millisecond."""


def first_at_or_after(
    data: bytes, header: EntryHeader, timestamp_ms: int, from_offset: int
) -> Steps[tuple[int, int] | None]:
    """Return (timestamp, offset) of the first record from `from_offset` on that is late enough.

    First in log order; None if there is none. An answer never comes from damaged bytes.

    Args:
        data: The whole batch, or the whole entry.

    Raises:
        BatchCorruptError: a wrong CRC, or wrong records up to the one looked for.
        MessageTooLargeError, UnsupportedCompressionError: it cannot be decompressed.
    """
    batch = _Batch(data, header)
    if not batch.open_if_small():
        yield batch.open
    for count, (timestamp, offset) in enumerate(batch.timestamps(), 1):
        if timestamp >= timestamp_ms and offset >= from_offset:
            return timestamp, offset
        if not count % SLICE_MESSAGES:
            yield None
    return None


class _Batch:
    """A batch or legacy entry; `open` checks and decompresses it, and may run in a thread."""

    __slots__ = ("_data", "_header", "_timestamps")

    def __init__(self, data: bytes, header: EntryHeader) -> None:
        self._data, self._header = data, header
        self._timestamps: Iterator[tuple[int, int]] | None = None

    def open_if_small(self) -> bool:
        """Open a batch that takes about a millisecond at most; return whether it did."""
        is_plain = not self._header.codec_bits
        if len(self._data) > (INLINE_PLAIN_BYTES_MAX if is_plain else INLINE_COMPRESSED_BYTES_MAX):
            return False
        try:
            self._open(limits.INT32_MAX if is_plain else INLINE_DECOMPRESSED_BYTES_MAX)
        except MessageTooLargeError:
            return False  # a few bytes that claim to be a hundred megabytes
        return True

    def open(self) -> None:
        """Check the batch and decompress it, however large."""
        self._open(limits.DECOMPRESSED_BYTES_MAX)

    def _open(self, size_bytes_max: int) -> None:
        data = self._data
        if self._header.magic == record_batch.MAGIC:
            record_batch.check_batch(data)
            self._timestamps = record_batch.iterate_timestamps(data, size_bytes_max=size_bytes_max)
        else:
            self._timestamps = legacy_message_set.iterate_timestamps(
                data, size_bytes_max=size_bytes_max
            )

    def timestamps(self) -> Iterator[tuple[int, int]]:
        """Return (timestamp, offset) of each record."""
        assert self._timestamps is not None, "it is opened before it is read"
        return self._timestamps
