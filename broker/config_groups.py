"""GroupsConfig: table [groups]: consumer groups and the offsets they commit."""

# No `from __future__ import annotations` here: each field's type is looked at when the daemon
# starts, and texts would have to be compiled and evaluated for that, one by one.

from typing import Annotated, Final

import msgspec

from broker.config_units import count, duration, size
from protocol.limits import INT32_MAX, PARTITIONS_PER_TOPIC_MAX

MIB: Final = 1024 * 1024
DAY_MS: Final = 24 * 60 * 60 * 1000


class GroupsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Consumer groups of the Kafka protocol, and the offsets that they commit."""

    initial_rebalance_delay_ms: Annotated[int, duration(ge=0, le=INT32_MAX)] = 0
    """How long an empty group waits for more members after the first one has joined, so that many
    that start together share one rebalance; each new one prolongs it. 0 starts at once."""
    min_session_timeout_ms: Annotated[int, duration(ge=1, le=INT32_MAX)] = 6_000
    """The shortest session timeout that a member may ask for."""
    max_session_timeout_ms: Annotated[int, duration(ge=1, le=INT32_MAX)] = 1_800_000
    """The longest session timeout that a member may ask for."""
    new_member_join_timeout_ms: Annotated[int, duration(ge=1, le=INT32_MAX)] = 300_000
    """A new member that waits for its group to be complete is forgotten after this: its client may
    be gone, and that cannot be seen before it is answered."""
    group_max_size: Annotated[int, count(ge=1, le=100_000)] = 1_000
    """Members of one group; further ones are refused with GROUP_MAX_SIZE_REACHED (81)."""
    group_metadata_bytes_max: Annotated[int, size(ge=1_024, le=INT32_MAX)] = 16 * MIB
    """What the members of one group may have the broker keep: subscriptions and assignments.
    Beyond it, either is refused as in a group that is full."""
    kept_bytes_max: Annotated[int, size(ge=MIB)] = 512 * MIB
    """Memory for all groups together: their members, what those have sent, and the offsets that
    were committed, about 450 bytes each. Beyond it, members are refused with GROUP_MAX_SIZE_REACHED
    (81), commits with INVALID_COMMIT_OFFSET_SIZE (28) and new groups with POLICY_VIOLATION (44);
    what does not grow still goes on."""
    groups_max: Annotated[int, count(ge=1, le=1_000_000)] = 10_000
    """Groups of this broker; further ones are refused with POLICY_VIOLATION (44)."""
    offset_metadata_max_bytes: Annotated[int, size(ge=0, le=32_767)] = 4_096
    """The longest text that may be committed with an offset; a longer one is refused with
    OFFSET_METADATA_TOO_LARGE (12)."""
    offsets_retention_ms: Annotated[int, duration(ge=1)] = 7 * DAY_MS
    """How long the offsets of a group without members are kept; of offsets that are committed
    without a group, how long after each commit."""
    offsets_retention_check_interval_ms: Annotated[int, duration(ge=100)] = 600_000
    """How often offsets that have expired are looked for."""
    offsets_topic_partitions: Annotated[int, count(ge=1, le=PARTITIONS_PER_TOPIC_MAX)] = 50
    """Partitions of `__consumer_offsets`, where all of this is kept, when it is made."""
    offsets_topic_segment_bytes: Annotated[int, size(ge=14, le=INT32_MAX)] = 100 * MIB
    """Segment size of that topic: smaller ones are compacted sooner."""
    offsets_commit_timeout_ms: Annotated[int, duration(ge=1, le=INT32_MAX)] = 5_000
    """How long a commit may wait for the disk before it is answered with
    COORDINATOR_NOT_AVAILABLE (15), which clients try again; it may hold all the same."""
