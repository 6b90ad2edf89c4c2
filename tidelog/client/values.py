"""What clients take and give: messages, topics, and where to begin."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from protocol.errors import BrokerError
from protocol.identifiers import Buffer

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

Start: TypeAlias = Literal["beginning", "end"] | int | datetime
"""Where to begin reading: an end of the log, an offset, or the first message at or after a time."""


class Message(NamedTuple):
    """One message as it is stored."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since the epoch; -1 is none."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Delivery(NamedTuple):
    """Where a produced message lies."""

    topic: str
    partition: int
    offset: int
    """-1 with acks=0: nobody said."""
    timestamp_ms: int
    """The broker's append time with LogAppendTime, else the message's own."""


class PartitionInfo(NamedTuple):
    """One partition as the broker describes it."""

    partition: int
    error: int
    """0, or the code why the numbers are -1."""
    log_start_offset: int
    high_watermark: int
    size_bytes: int


class TopicInfo(NamedTuple):
    """One topic as the broker describes it."""

    name: str
    error: int
    partitions: tuple[PartitionInfo, ...]


class DeletedRecords(NamedTuple):
    """Where a partition begins after its first records were deleted."""

    topic: str
    partition: int
    error: int
    """0, or the code why nothing was deleted."""
    log_start_offset: int
    """The first offset there is, for good; -1 with an error."""

    def raise_for_error(self) -> None:
        """Raise BrokerError if the partition answered with one."""
        if self.error:
            raise BrokerError(self.error, f"{self.topic}-{self.partition}")


class AbortedTransaction(NamedTuple):
    """An aborted transaction: a producer's batches between two offsets, both included."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of the batch that says that it was aborted."""


class Transactions(NamedTuple):
    """What a reader of committed messages has to know of a partition."""

    last_stable_offset: int
    """Below it all transactions are decided."""
    aborted: list[AbortedTransaction]


class FetchAnswer(NamedTuple):
    """What one partition gave to a fetch."""

    topic: str
    partition: int
    error: int
    messages: list[Message]
    next_offset: int
    """Where to fetch next; the offset asked for where nothing came."""

    def raise_for_error(self) -> None:
        """Raise BrokerError if the partition answered with one."""
        if self.error:
            raise BrokerError(self.error, f"{self.topic}-{self.partition}")


class StoredBatches(NamedTuple):
    """What one partition gave to a fetch, as it is stored."""

    topic: str
    partition: int
    data: Buffer
    """Whole record batches, one after another; control batches and old offsets among them."""
    next_offset: int
    """Where to fetch next; the offset asked for where nothing came."""


class FetchFrom(NamedTuple):
    """One partition of a multi-fetch."""

    topic: str
    partition: int
    offset: int
    max_bytes: int = 1024 * 1024
