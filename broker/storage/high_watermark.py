"""HighWatermark: up to where a log is committed, and may be read (R35, R36).

What moves it is decided elsewhere: under flush policy `commit` it is the durable offset, under
`interval` and `os` the log end offset (`partition_log`); with replicas it will be their minimum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.storage.offset_metadata import LogOffsetMetadata
from protocol.limits import INT64_MAX

if TYPE_CHECKING:
    from broker.storage.partition_log import PartitionLog

NONE_UNSTABLE: Final = INT64_MAX
"""What the producers say where every transaction is decided, and committed."""


class HighWatermark:
    """The high watermark and the last stable offset of one log; both only plain numbers to read."""

    __slots__ = ("_log", "_metadata", "last_stable_offset", "offset")

    def __init__(self, log: PartitionLog) -> None:
        """Start at the log start offset; the log's listener is told of each move."""
        self._log = log
        self.offset = log.log_start_offset
        """Everything below is committed and visible."""
        self.last_stable_offset = self.offset
        """Everything below is committed and of a decided transaction."""
        self._metadata: LogOffsetMetadata | None = None

    def move_to(self, offset: int, metadata: LogOffsetMetadata | None = None) -> None:
        """Set it; `metadata`, where its place in the files is known, spares a look-up.

        Raises:
            ValueError: `offset` is negative.
        """
        if offset < 0:
            raise ValueError(f"a high watermark cannot be {offset}")
        log = self._log
        assert log.log_start_offset <= offset <= log.log_end_offset, (
            log.log_start_offset, offset, log.log_end_offset,
        )  # fmt: skip
        self._metadata = metadata
        if offset == self.offset:
            return
        self.offset = self.last_stable_offset = offset
        if log.producers.first_unstable_offset < NONE_UNSTABLE:
            self.update_last_stable()
        log.listener.high_watermark_moved(log)

    def update_last_stable(self) -> None:
        """Tell the producers where it is, and compute the last stable offset anew (R36).

        After moves of the high watermark and of the log start, and after a cut.
        """
        log = self._log
        unstable = log.producers.high_watermark_moved(self.offset)
        self.last_stable_offset = max(log.log_start_offset, min(self.offset, unstable))

    def update(self, offset: int) -> int:
        """Set it to `offset`, clamped to log start and log end; return what it became.

        For a follower, which takes its leader's word.

        Raises:
            ValueError: `offset` is negative.
        """
        if offset < 0:
            raise ValueError(f"a high watermark cannot be {offset}")
        log = self._log
        clamped = max(log.log_start_offset, min(offset, log.log_end_offset))
        self.move_to(clamped)
        return clamped

    def maybe_increment(
        self, new: LogOffsetMetadata, *, cluster_backup: bool = False
    ) -> LogOffsetMetadata | None:
        """Move forward to `new`, or at the same offset onto a newer segment.

        Args:
            cluster_backup: Move back as well: the one way, for a log set back to a backup's state.

        Returns:
            Where it was, or None if it did not move.

        Raises:
            ValueError: `new` is above the log end offset, below the log start or negative.
        """
        log = self._log
        offset = new.message_offset
        if offset > log.log_end_offset:
            raise ValueError(f"{offset} is above the log end offset {log.log_end_offset}")
        if offset < 0 or (cluster_backup and offset < log.log_start_offset):
            raise ValueError(f"a high watermark cannot be {offset}")
        old = self.metadata()
        moves = (
            offset > old.message_offset
            or (cluster_backup and offset < old.message_offset)
            or (
                offset == old.message_offset
                and not new.message_offset_only()
                and old.on_older_segment(new)
            )
        )
        if not moves:
            return None
        self.move_to(offset, None if new.message_offset_only() else new)
        return old

    def metadata(self) -> LogOffsetMetadata:
        """Return the high watermark with its place in the files; the log is read if need be.

        Raises:
            StorageError: the log is closed, or cannot be read.
        """
        metadata = self._metadata
        if metadata is None or metadata.message_offset != self.offset:
            metadata = self._metadata = self._log.offset_metadata(self.offset)
        return metadata

    def forget_metadata(self) -> None:
        """Look its place up again when it is next asked for: files were cut or replaced."""
        self._metadata = None
