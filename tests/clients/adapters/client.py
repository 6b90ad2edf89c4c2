"""Client: one face for Kafka clients, so that each goes through the same scenarios.

An adapter translates and decides nothing: what is sent is up to the client that it wraps.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from protocol.error_codes import ErrorCode

WAIT_S = 30.0
"""Nothing that a test waits for takes so long, unless it does not work."""
NOW_MS = int(time.time() * 1_000)
"""Records are of today: what is older than a week is deleted, at the broker's convenience."""
SESSION_MS = 3_000
"""After which a member that says nothing is taken for crashed; Kafka's least is 6 seconds."""
BROKER_SETTING = f"groups.min_session_timeout_ms={SESSION_MS}"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Record(NamedTuple):
    """What is sent, and what comes back."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = NOW_MS


class Client(ABC):
    """A client that knows one broker."""

    def __init__(self, address: str) -> None:
        self.address = address

    # --- records --------------------------------------------------------------------------------

    @abstractmethod
    def send(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: int = -1,
        is_idempotent: bool = False,
        request_bytes_max: int = 1_000_000,
    ) -> list[int]:
        """Send records to a partition; return the offset of each, as far as the client is told.

        Raises:
            What the client raises when a record is refused.
        """

    @abstractmethod
    def send_to_all(self, partitions: Iterable[tuple[str, int]], value: bytes) -> int:
        """Send the value to each partition with one producer; return how many arrived."""

    @abstractmethod
    def read(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
        wait_s: float = WAIT_S,
        resets: bool = True,
    ) -> list[tuple[int, Record]]:
        """Seek to the offset and read so many records with their offsets; fewer if time is over.

        Args:
            resets: An offset that is not there is taken for the earliest one, and raised else.
        """

    @abstractmethod
    def read_all(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], bytes]:
        """Read one record of each partition with one consumer."""

    @abstractmethod
    def bounds(self, topic: str) -> tuple[int, int]:
        """Return the first offset of partition 0 and the one after its last."""

    @abstractmethod
    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        """Return the first offset of partition 0 at that time or later; None if there is none."""

    # --- groups ---------------------------------------------------------------------------------

    @abstractmethod
    def read_and_commit(self, topic: str, group: str, count: int) -> list[tuple[int, Record]]:
        """Join the group, read so many records, commit behind the last, leave."""

    @abstractmethod
    def follow(
        self,
        topic: str,
        group: str,
        *,
        assigned: Callable[[list[int]], None],
        received: Callable[[int, int], None],
        is_over: Callable[[], bool],
    ) -> None:
        """Be a member of the group until `is_over`, then leave it.

        Args:
            assigned: Called with the partitions of the topic that this member has, at each change.
            received: Called with partition and offset of each record.
        """

    @abstractmethod
    def groups(self) -> set[str]:
        """Return the names of all groups."""

    @abstractmethod
    def group_state(self, group: str) -> str:
        """Return the state of a group, as the client calls it, in lower case."""

    @abstractmethod
    def committed(self, topic: str, group: str) -> int:
        """Return the group's offset of partition 0, asked by an admin client."""

    # --- topics ---------------------------------------------------------------------------------

    @abstractmethod
    def create_topics(
        self, topics: Sequence[str], partitions: int, replicas: int, settings: dict[str, str]
    ) -> None:
        """Create topics with one request."""

    def create_topic(
        self, topic: str, partitions: int = 1, *, replicas: int = 1, **settings: str | int
    ) -> None:
        """Create a topic; settings have Kafka's names with `_` for `.`."""
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.create_topics([topic], partitions, replicas, named)

    @abstractmethod
    def delete_topic(self, topic: str) -> None: ...

    @abstractmethod
    def grow_topic(self, topic: str, partitions: int) -> None:
        """Give a topic so many partitions in all."""

    @abstractmethod
    def delete_records(self, topic: str, before_offset: int) -> None:
        """Delete what is below an offset of partition 0."""

    @abstractmethod
    def partition_counts(self) -> dict[str, int]:
        """Return all topics with how many partitions they have."""

    @abstractmethod
    def settings(self, topic: str) -> dict[str, str]: ...

    @abstractmethod
    def alter_setting(self, topic: str, name: str, value: str) -> None: ...

    # --- errors ---------------------------------------------------------------------------------

    @abstractmethod
    def raises(self, error: ErrorCode) -> AbstractContextManager[object]:
        """Expect the client's own exception for an error of the broker."""
