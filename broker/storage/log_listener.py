"""LogListener: who is told what happens in a log; the flusher and those who wait for commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.storage.partition_log import PartitionLog


class LogListener(Protocol):
    """Called on the event loop, from inside the log's methods: do little, raise nothing."""

    def unflushed(self, log: PartitionLog) -> None:
        """`log.flush_due_at` was set, or moved forward; or `log.writeback_due()` has something.

        Not called again for a flush that is due at once until it is over.
        """
        ...

    def high_watermark_moved(self, log: PartitionLog) -> None:
        """`log.high_watermark` is another than before: usually higher, after a truncation lower."""
        ...

    def flush_postponed(self, log: PartitionLog) -> None:
        """The log's directory is not there just now: what waits to be durable may wait for long."""
        ...

    def log_failed(self, log: PartitionLog, error: OSError) -> None:
        """A sync failed. Nothing of the log gets durable any more, no append is accepted."""
        ...


class NullListener:
    """Nobody: while a log is being loaded, and in tools and tests."""

    __slots__ = ()

    def unflushed(self, log: PartitionLog) -> None:
        pass

    def high_watermark_moved(self, log: PartitionLog) -> None:
        pass

    def flush_postponed(self, log: PartitionLog) -> None:
        pass

    def log_failed(self, log: PartitionLog, error: OSError) -> None:
        pass
