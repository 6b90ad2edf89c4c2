"""OffsetCommits: commits, fetches and deletions of offsets, and those that expire.

What is committed is shown once its record is: in memory things happen in the order of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from broker.coordinator.committed_offsets import CommittedOffset, Place
from broker.coordinator.group import Group, GroupState
from broker.coordinator.group_values import group_tombstone, offset_record, offset_tombstone
from broker.coordinator.storage_errors import offset_error
from protocol.error_codes import ErrorCode
from protocol.errors import StoredFormatError
from protocol.kafka.consumer_protocol import CONSUMER_PROTOCOL_TYPE

if TYPE_CHECKING:
    from broker.config_groups import GroupsConfig
    from broker.coordinator.groups import Groups
    from broker.coordinator.membership import Membership
    from broker.coordinator.offsets_topic import Done, OffsetsTopic

__all__ = ["Committer", "DeletionDone", "OffsetCommits", "expired_places"]

DeletionDone: TypeAlias = Callable[[ErrorCode, frozenset[Place]], object]
"""Told the error of all, and the places that were left alone because members read the topic."""

GROUP_ID_NOT_FOUND_FROM_VERSION: Final = 9
"""Of OffsetCommit; before, a group that is not there is a generation that is not."""
_E = ErrorCode


class Committer(NamedTuple):
    """Who commits, and in which version of OffsetCommit; without a group, the defaults."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    version: int = 9


class OffsetCommits:
    """The offsets of every group."""

    def __init__(
        self,
        groups: Groups,
        membership: Membership,
        topic: OffsetsTopic,
        settings: GroupsConfig,
        now_ms: Callable[[], int],
    ) -> None:
        self._groups, self._membership, self._topic = groups, membership, topic
        self._settings, self._now_ms = settings, now_ms

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
        is_used = group.state is not GroupState.EMPTY
        used = frozenset(place for place in places if is_used and group.is_subscribed_to(place[0]))
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
        known = set(group.offsets.places())
        gone = [place for place in places if place in known]
        if not gone:
            done(_E.NONE)
            return

        def written(error: ErrorCode) -> None:
            if not error:
                for place in gone:
                    group.offsets.remove(place)
            done(offset_error(error))

        records = [offset_tombstone(group.group_id, place) for place in gone]
        self._topic.append_all(group.group_id, records, written)

    def delete_group(self, group_id: str, done: Done) -> None:
        """Delete a group that has no members, with its offsets."""
        group = self._groups.get(group_id)
        if group is None:
            done(_E.GROUP_ID_NOT_FOUND)
        elif group.state is not GroupState.EMPTY:
            done(_E.NON_EMPTY_GROUP)
        else:
            self._delete_group(group, done)

    def _delete_group(self, group: Group, done: Done) -> None:
        # From here on its name is free: what comes for it is written behind the tombstones.
        self._groups.remove(group)
        records = [offset_tombstone(group.group_id, place) for place in group.offsets.places()]

        def written(error: ErrorCode) -> None:
            if error and self._groups.get(group.group_id) is None:
                group.state = GroupState.EMPTY
                self._groups.add_loaded(group)
            done(offset_error(error))

        self._topic.append_all(group.group_id, [*records, group_tombstone(group.group_id)], written)

    # --- by themselves --------------------------------------------------------------------------

    def forget_topic(self, topic: str) -> None:
        """Delete every offset in a topic that was deleted, lest they are taken for another's."""
        for group in self._groups:
            numbers = group.offsets.by_topic.get(topic)
            if numbers:
                self._remove(group, [(topic, number) for number in numbers], lambda error: None)

    def expire(self, group: Group, has_topic: Callable[[str], bool]) -> int:
        """Delete what a group need not keep, and the group if nothing is left; return how many."""
        gone = expired_places(group, self._now_ms(), self._settings.offsets_retention_ms, has_topic)
        if gone:
            self._remove(group, gone, lambda error: None)
        elif group.can_be_forgotten:
            if group.is_stored:
                self._delete_group(group, lambda error: None)
            else:
                self._groups.remove(group)
        return len(gone)


def expired_places(
    group: Group, now_ms: int, retention_ms: int, has_topic: Callable[[str], bool]
) -> list[Place]:
    """Return where offsets have expired, and are not being committed anew.

    Without a group protocol each offset ages from its commit. With one they age from when the group
    became empty; in a stable group of consumers only those of topics that nobody reads any more,
    from their commit. Topics that are gone take their offsets with them.
    """

    def is_expired(topic: str, committed: CommittedOffset) -> bool:
        if not has_topic(topic):
            return True
        since_ms = committed.commit_timestamp_ms
        if group.protocol_type is not None:
            if group.state is GroupState.EMPTY:
                if group.state_since_ms >= 0:
                    since_ms = group.state_since_ms
            elif not _is_unread(group, topic):
                return False
        elif group.state is not GroupState.EMPTY:
            return False
        if committed.expire_timestamp_ms >= 0:
            return now_ms >= committed.expire_timestamp_ms
        return now_ms - since_ms >= retention_ms

    return [
        place
        for place, committed in group.offsets.items()
        if not group.offsets.is_pending(place) and is_expired(place[0], committed)
    ]


def _is_unread(group: Group, topic: str) -> bool:
    """Whether a group of consumers has settled on reading other topics."""
    is_stable = group.state is GroupState.STABLE
    return is_stable and group.subscribed is not None and topic not in group.subscribed
