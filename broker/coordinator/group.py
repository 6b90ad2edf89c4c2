"""Group: who is in a group, in which state it is, and what follows from that.

Plain data and look-ups; what happens to a group is in `rebalance`, `joining` and `membership`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from broker.coordinator.committed_offsets import CommittedOffsets
from broker.coordinator.kept_bytes import GROUP_BYTES, PENDING_BYTES, KeptBytes, text_bytes
from broker.coordinator.member import Member, Protocols
from protocol.error_codes import ErrorCode
from protocol.kafka.consumer_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics

if TYPE_CHECKING:
    from broker.coordinator.timers import Timer

__all__ = ["CLIENT_ID_CHARS_MAX", "Group", "GroupState", "generate_member_id"]

CLIENT_ID_CHARS_MAX: Final = 1_000
"""Of a client id in a member's id and in records, whose lengths are int16."""


class GroupState(enum.StrEnum):
    """Kafka's states of a classic group, by Kafka's names; the table is in `membership`."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


def generate_member_id(client_id: str, instance_id: str | None) -> str:
    """Return an id that no other member has or will have."""
    return f"{(instance_id or client_id)[:CLIENT_ID_CHARS_MAX]}-{uuid4()}"


class Group:
    """One group. `state_since_ms` is of the wall clock, -1 where it is not known."""

    __slots__ = (
        "awaiting_join",
        "generation",
        "group_id",
        "is_initial_delay",
        "is_stored",
        "join_timer",
        "kept",
        "leader_id",
        "members",
        "metadata_bytes",
        "new_member_added",
        "offsets",
        "pending",
        "pending_sync",
        "protocol_name",
        "protocol_type",
        "state",
        "state_since_ms",
        "static_members",
        "supporters",
        "sync_timer",
    )

    def __init__(self, group_id: str, state_since_ms: int = -1) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms = state_since_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by group instance id."""
        self.pending: dict[str, Timer] = {}
        """Ids that were given out and not joined with yet, and when they are forgotten."""
        self.pending_sync: set[str] = set()
        """Members that know of the generation and have not asked for their assignment."""
        self.awaiting_join = 0
        """How many members wait for the answer to their JoinGroup."""
        self.supporters: dict[str, int] = {}
        """How many members have each protocol."""
        self.metadata_bytes = 0
        self.new_member_added = self.is_initial_delay = False
        self.join_timer: Timer | None = None
        self.sync_timer: Timer | None = None
        self.kept = KeptBytes()
        """What it costs the broker in all."""
        self.kept.add(GROUP_BYTES + text_bytes(group_id))
        self.offsets = CommittedOffsets(self.kept)
        self.is_stored = False
        """Its metadata may be in the log, so a tombstone has to follow."""

    # --- members --------------------------------------------------------------------------------

    def expect(self, member_id: str, timer: Timer) -> None:
        """Take note of an id that was given out, and when it is forgotten."""
        self.pending[member_id] = timer
        self.kept.add(PENDING_BYTES + text_bytes(member_id))

    def add(self, member: Member) -> None:
        """Take in a member; the first one leads, and says what kind of group it is."""
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count(member, 1)

    def remove(self, member_id: str) -> Member | None:
        """Forget a member, pending or not; return it if it was one of the members."""
        pending = self.pending.pop(member_id, None)
        if pending is not None:
            pending.cancel()
            self.kept.add(-PENDING_BYTES - text_bytes(member_id))
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        if member.session is not None:
            member.session.cancel()
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        self._count(member, -1)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def update(self, member: Member, protocols: Protocols) -> None:
        """Replace what a member says of itself."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def assign(self, member: Member, assignment: bytes) -> None:
        """Give a member its assignment."""
        growth = len(assignment) - len(member.assignment)
        self.metadata_bytes += growth
        self.kept.add(growth)
        member.assignment = assignment

    def replace_static(self, instance_id: str, new_id: str) -> Member:
        """Let the static member go on under another id."""
        old_id = self.static_members[instance_id]
        member = self.members.pop(old_id)
        self.pending_sync.discard(old_id)
        self.kept.add(text_bytes(new_id) - text_bytes(old_id))
        member.member_id = new_id
        self.members[new_id] = member
        self.static_members[instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def _count(self, member: Member, sign: int) -> None:
        self.metadata_bytes += sign * member.metadata_bytes
        self.kept.add(sign * member.kept_bytes)
        for name in {name for name, _ in member.protocols}:
            count = self.supporters.get(name, 0) + sign
            if count:
                self.supporters[name] = count
            else:
                del self.supporters[name]

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return NONE if it is the member that it says it is."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def has_all_joined(self) -> bool:
        """Whether nobody is waited for."""
        return self.awaiting_join == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to rejoin."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """See that the leader is one who has joined; return False if nobody could be it."""
        leader = self.members.get(self.leader_id or "")
        if leader is None:
            return False
        if leader.join_answer is None:
            joined = (each for each in self.members.values() if each.join_answer is not None)
            leader = next(joined, None)
            if leader is None:
                return False
            self.leader_id = leader.member_id
        return True

    # --- protocols ------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether one who has these protocols could join."""
        names = list(protocols)
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and names)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.supporters.get(name, 0) == everybody for name in names
        )

    def select_protocol(self) -> str:
        """Return what most members like best of the protocols that all of them have.

        Of several with as many votes, the one that got its first vote first.
        """
        everybody = len(self.members)
        candidates = frozenset(n for n, count in self.supporters.items() if count == everybody)
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def find_subscribed(self) -> frozenset[str] | None:
        """Return the topics that members read; None: they do not say so as consumers do.

        Looked for when it is asked for, which is seldom: kept, it could be thirty times as large as
        what clients have sent.
        """
        if not self.members:
            return None if self.protocol_type is None else frozenset()
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or self.protocol_name is None:
            return None
        name = self.protocol_name
        return subscribed_topics(member.metadata_for(name) for member in self.members.values())

    @property
    def can_be_forgotten(self) -> bool:
        """Whether nobody and nothing is left in it."""
        return self.state is GroupState.EMPTY and not self.pending and self.offsets.is_empty
