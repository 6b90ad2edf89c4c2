"""OffsetCommits: commits, fetches and deletions of offsets, and those that expire.

What is committed is shown once its record is: in memory things happen in the order of the log. An
offset counts only for the topic in which it was committed, not for another of the same name: so
what a deleted topic leaves behind here need not be gone before the name is used again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from broker.coordinator.committed_offsets import CommittedOffset, Place
from broker.coordinator.group import Group, GroupState
from broker.coordinator.group_values import group_tombstone, offset_record, offset_tombstone
from broker.coordinator.offset_expiry import expired_places, stranger_places
from broker.coordinator.storage_errors import offset_error
from protocol.error_codes import ErrorCode
from protocol.errors import StoredFormatError
from protocol.kafka.consumer_protocol import CONSUMER_PROTOCOL_TYPE

if TYPE_CHECKING:
    from broker.config_groups import GroupsConfig
    from broker.coordinator.groups import Groups
    from broker.coordinator.membership import Membership
    from broker.coordinator.offsets_topic import Done, OffsetsTopic

__all__ = ["Committer", "DeletionDone", "OffsetCommits"]

DeletionDone: TypeAlias = Callable[[ErrorCode, frozenset[Place]], object]
"""Told the error of all, and the places that were left alone because members read the topic."""

GROUP_ID_NOT_FOUND_FROM_VERSION: Final = 9
"""Of OffsetCommit; before, a group that is not there is a generation that is not."""
DELETIONS_PER_TURN: Final = 500
_E = ErrorCode


class Committer(NamedTuple):
    """Who commits, and in which version of OffsetCommit; without a group, the defaults."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    version: int = 9


def _used_places(group: Group, places: Sequence[Place]) -> frozenset[Place]:
    """Return the places in topics that members may be reading: if they do not say, in all."""
    if group.state is GroupState.EMPTY:
        return frozenset()
    subscribed = group.find_subscribed()
    return frozenset(each for each in places if subscribed is None or each[0] in subscribed)


class OffsetCommits:
    """The offsets of every group."""

    def __init__(
        self,
        groups: Groups,
        membership: Membership,
        topic: OffsetsTopic,
        settings: GroupsConfig,
        now_ms: Callable[[], int],
        topic_id: Callable[[str], bytes | None],
        soon: Callable[[Callable[[], object]], object],
    ) -> None:
        """Args:
        topic_id: Returns the id of the topic that bears a name now, if one does.
        soon: Calls something in a later turn of the event loop.
        """
        self._soon = soon
        self._groups, self._membership, self._topic = groups, membership, topic
        self._settings, self._now_ms, self._topic_id = settings, now_ms, topic_id

    def commit(self, by: Committer, offsets: Mapping[Place, CommittedOffset], done: Done) -> None:
        """Commit offsets; `done` is told the error that all of them have, or NONE."""
        group = self._groups.get(by.group_id)
        if group is None and by.generation >= 0:
            is_new = by.version >= GROUP_ID_NOT_FOUND_FROM_VERSION
            done(_E.GROUP_ID_NOT_FOUND if is_new else _E.ILLEGAL_GENERATION)
            return
        group = group or self._groups.get_or_create(by.group_id, self._now_ms())
        if group is None:
            done(_E.POLICY_VIOLATION)
            return
        error = self._membership.check_commit(group, by.member_id, by.instance_id, by.generation)
        if error or not offsets:
            self._groups.drop_if_unused(group)
            done(error)
            return
        if not group.kept.has_room(group.offsets.growth(offsets)):
            self._groups.drop_if_unused(group)
            done(_E.INVALID_COMMIT_OFFSET_SIZE)
            return
        self._write(group, offsets, done)

    def _write(self, group: Group, offsets: Mapping[Place, CommittedOffset], done: Done) -> None:
        try:
            records = [offset_record(group.group_id, *each) for each in offsets.items()]
        except StoredFormatError:
            done(_E.INVALID_COMMIT_OFFSET_SIZE)
            return
        is_answered = False

        def answer(error: ErrorCode) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                done(error)

        def written(error: ErrorCode) -> None:
            for place, committed in offsets.items():
                group.offsets.end(place, None if error else committed)
            self._groups.drop_if_unused(group)
            answer(offset_error(error))

        for place in offsets:
            group.offsets.begin(place)
        self._topic.append(
            group.group_id, records, written, late=lambda: answer(_E.COORDINATOR_NOT_AVAILABLE)
        )

    # --- deleting -------------------------------------------------------------------------------

    def delete(self, group_id: str, places: Sequence[Place], done: DeletionDone) -> None:
        """Delete offsets that nobody in the group can be using; see `DeletionDone`."""
        group = self._groups.get(group_id)
        error = self._deletion_error(group)
        if group is None or error:
            done(error, frozenset())
            return
        used = _used_places(group, places)
        free = [place for place in places if place not in used]
        self._remove(group, free, lambda error: done(error, used))

    def _deletion_error(self, group: Group | None) -> ErrorCode:
        if group is None:
            return _E.GROUP_ID_NOT_FOUND
        is_consumers = group.protocol_type == CONSUMER_PROTOCOL_TYPE
        if group.state is not GroupState.EMPTY and not is_consumers:
            return _E.NON_EMPTY_GROUP
        return _E.NONE

    def _remove(self, group: Group, places: Sequence[Place], done: Done) -> None:
        gone = [place for place in dict.fromkeys(places) if group.offsets.has(place)]
        if not gone or group.state is GroupState.DEAD:  # another may have its name by now
            done(_E.NONE)
            return

        def written(error: ErrorCode) -> None:
            for place in gone:
                group.offsets.end(place, None)
                if not error:
                    group.offsets.remove(place)
            done(offset_error(error))

        for place in gone:
            group.offsets.begin(place)
        records = [offset_tombstone(group.group_id, place) for place in gone]
        self._topic.append_all(group.group_id, records, written)

    def delete_group(self, group_id: str, done: Done) -> None:
        """Delete a group that has no members, with its offsets.

        If they are many, in parts, a turn of the loop each: one who joins meanwhile keeps the rest.
        """
        group = self._groups.get(group_id)
        if group is None:
            done(_E.GROUP_ID_NOT_FOUND)
        elif group.state is not GroupState.EMPTY:
            done(_E.NON_EMPTY_GROUP)
        elif group.offsets.count <= DELETIONS_PER_TURN:
            self._delete_group(group, done)
        else:
            part = [place for place, _ in islice(group.offsets.items(), DELETIONS_PER_TURN)]
            self._remove(group, part, lambda error: self._delete_rest(group_id, error, done))

    def _delete_rest(self, group_id: str, error: ErrorCode, done: Done) -> None:
        if error:
            done(error)
        else:
            self._soon(lambda: self.delete_group(group_id, done))

    def _delete_group(self, group: Group, done: Done) -> None:
        # From here on its name is free: what comes for it is written behind the tombstones.
        self._groups.remove(group)
        records = [offset_tombstone(group.group_id, place) for place in group.offsets.places()]

        def written(error: ErrorCode) -> None:
            if error and self._groups.get(group.group_id) is None:
                group.state = GroupState.EMPTY
                self._groups.add(group)
            done(offset_error(error))

        self._topic.append_all(group.group_id, [*records, group_tombstone(group.group_id)], written)

    # --- by themselves --------------------------------------------------------------------------

    def forget_strangers(self, group: Group, topic: str) -> int:
        """Delete offsets in a topic that was deleted, whatever bears its name; return how many."""
        gone = stranger_places(group, topic, self._topic_id(topic))
        self._remove(group, gone, lambda error: None)
        return len(gone)

    def expire(self, group: Group, topic: str, subscribed: frozenset[str] | None) -> int:
        """Delete what a group need not keep of a topic; return how many offsets."""
        gone = expired_places(
            group,
            topic,
            self._topic_id(topic),
            subscribed,
            now_ms=self._now_ms(),
            retention_ms=self._settings.offsets_retention_ms,
        )
        self._remove(group, gone, lambda error: None)
        return len(gone)

    def forget_if_unused(self, group: Group) -> None:
        """Delete a group that nobody and nothing is left in."""
        if not group.can_be_forgotten:
            return
        if group.is_stored:
            self._delete_group(group, lambda error: None)
        else:
            self._groups.remove(group)
