"""Internal topics: what Kafka keeps for itself, and so do we."""

from __future__ import annotations

from typing import Final

__all__ = ["INTERNAL_TOPICS", "is_internal"]

INTERNAL_TOPICS: Final = frozenset(
    (b"__consumer_offsets", b"__transaction_state", b"__share_group_state", b"__cluster_metadata")
)
"""Three coordinators' topics, and the log of Kafka's controller, whose directory is never taken for
a topic's. Other names that begin so are those of users: Debezium's, Connect's and Streams' topics
may have them."""


def is_internal(topic: str | bytes) -> bool:
    """Whether only the broker itself may write to, make or delete the topic."""
    name = topic.encode("utf-8", "replace") if isinstance(topic, str) else topic
    return name in INTERNAL_TOPICS
