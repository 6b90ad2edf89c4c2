"""Offset expiry: which of a group's offsets need not be kept any more."""

from __future__ import annotations

from broker.coordinator.committed_offsets import CommittedOffset, Place
from broker.coordinator.group import Group, GroupState

__all__ = ["expired_places", "stranger_places"]


def stranger_places(group: Group, topic: str, topic_id: bytes | None) -> list[Place]:
    """Return where offsets are of another topic than the one that bears the name now.

    Args:
        topic_id: Of the topic of that name; None: there is none.
    """
    return [
        (topic, number)
        for number, committed in group.offsets.by_topic.get(topic, {}).items()
        if committed.topic_id != topic_id and not group.offsets.is_pending((topic, number))
    ]


def expired_places(
    group: Group,
    topic: str,
    topic_id: bytes | None,
    subscribed: frozenset[str] | None,
    *,
    now_ms: int,
    retention_ms: int,
) -> list[Place]:
    """Return where offsets in a topic have expired, and are not being committed anew.

    Without a group protocol each offset ages from its commit. With one they age from when the group
    became empty; in a stable group of consumers only those of topics that nobody reads any more,
    from their commit. Topics that are gone take their offsets with them.

    Args:
        topic_id: As in `stranger_places`.
        subscribed: What members read; None: it is not known.
    """
    is_unread = (
        group.state is GroupState.STABLE and subscribed is not None and topic not in subscribed
    )

    def is_expired(committed: CommittedOffset) -> bool:
        if committed.topic_id != topic_id:
            return True
        since_ms = committed.commit_timestamp_ms
        if group.protocol_type is not None:
            if group.state is GroupState.EMPTY:
                if group.state_since_ms >= 0:
                    since_ms = group.state_since_ms
            elif not is_unread:
                return False
        elif group.state is not GroupState.EMPTY:
            return False
        if committed.expire_timestamp_ms >= 0:
            return now_ms >= committed.expire_timestamp_ms
        return now_ms - since_ms >= retention_ms

    return [
        (topic, number)
        for number, committed in group.offsets.by_topic.get(topic, {}).items()
        if not group.offsets.is_pending((topic, number)) and is_expired(committed)
    ]
