"""The names of things: numbers and strings that must not be taken for one another.

*offset* counts records of a partition; *position* counts bytes of a file. Timestamps are
milliseconds since 1970-01-01 UTC, as in Kafka.
"""

from __future__ import annotations

from typing import Final, NamedTuple, NewType, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes in memory; what is only read may be any of them, and is never copied to become another."""

Offset = NewType("Offset", int)
"""The number of a record in its partition, from 0, int64 on the wire and on disk."""

Position = NewType("Position", int)
"""A byte in a file, from 0."""

TimestampMs = NewType("TimestampMs", int)
"""Milliseconds since the epoch; -1 is none."""

UNKNOWN_OFFSET: Final = Offset(-1)
UNKNOWN_POSITION: Final = Position(-1)
NO_TIMESTAMP: Final = TimestampMs(-1)
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1


class TopicPartition(NamedTuple):
    """One partition of one topic; its text is the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
