"""Member: one consumer, or other client, in a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from broker.coordinator.kept_bytes import MEMBER_BYTES, text_bytes

if TYPE_CHECKING:
    from broker.coordinator.timers import Timer
    from protocol.kafka.group_membership import JoinGroupResponse, SyncGroupResponse

JoinAnswer: TypeAlias = "Callable[[JoinGroupResponse], object]"
SyncAnswer: TypeAlias = "Callable[[SyncGroupResponse], object]"
Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names with the member's metadata for each, the one it likes best first."""


PROTOCOL_BYTES: Final = 64
"""What a protocol costs the broker beside its name and metadata."""


def size_of_protocols(protocols: Protocols) -> int:
    """Return what the broker has to keep of a member's protocols, in bytes."""
    return sum(len(name) + len(metadata) + PROTOCOL_BYTES for name, metadata in protocols)


class Member:
    """What a group knows of a member. `join_answer` and `sync_answer` are who waits for it."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_answer",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_deadline_s",
        "session_timeout_ms",
        "sync_answer",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        """Args:
        instance_id: Set by a static member: who comes with it anew takes this member's place.
        """
        self.member_id, self.instance_id = member_id, instance_id
        self.client_id, self.client_host = client_id, client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols, self.assignment = protocols, assignment
        self.join_answer: JoinAnswer | None = None
        self.sync_answer: SyncAnswer | None = None
        self.is_new = False
        """It has joined and does not know its id yet, so it cannot send heartbeats."""
        self.session: Timer | None = None
        self.session_deadline_s = 0.0

    def metadata_for(self, protocol: str | None) -> bytes:
        """Return its metadata for a protocol; empty if it does not have that."""
        return dict(self.protocols).get(protocol or "", b"")

    def vote(self, candidates: Sequence[str] | frozenset[str]) -> str:
        """Return which of the protocols it likes best; it has them all."""
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def metadata_bytes(self) -> int:
        """What it makes the broker keep, metadata and assignment."""
        return size_of_protocols(self.protocols) + len(self.assignment)

    @property
    def kept_bytes(self) -> int:
        """What it costs the broker in all."""
        texts = (self.member_id, self.instance_id or "", self.client_id, self.client_host)
        return MEMBER_BYTES + self.metadata_bytes + sum(map(text_bytes, texts))
