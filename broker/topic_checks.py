"""Topic checks: whether a topic could be created, before anything of it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.partition_table import check_is_for_clients
from broker.topic_settings import checked_settings, log_config
from protocol.errors import InvalidPartitionsError, TopicAlreadyExistsError

if TYPE_CHECKING:
    from broker.config import LimitsConfig
    from broker.topic_store import TopicStore


def check_new_topic(
    store: TopicStore,
    limits: LimitsConfig,
    name: str,
    partition_count: int,
    settings: Mapping[str, str],
) -> dict[str, str]:
    """Return the settings of a topic that is to be created, checked, by canonical names.

    Raises:
        InvalidTopicError, TopicAlreadyExistsError, InvalidConfigError, InvalidPartitionsError: as
            `PartitionManager.create_topic`.
    """
    check_is_for_clients(name)
    if name in store.entries:
        raise TopicAlreadyExistsError(f"topic {name} exists")
    checked = checked_settings(settings)
    log_config(checked, store.defaults)
    check_counts(store, limits, partition_count)
    return checked


def check_counts(store: TopicStore, limits: LimitsConfig, partition_count: int) -> None:
    """Check that there may be one more topic, with so many partitions.

    Raises:
        InvalidPartitionsError: the count is out of range, or there are too many topics.
    """
    partitions_max = limits.partitions_per_topic_max
    if not 1 <= partition_count <= partitions_max:
        raise InvalidPartitionsError(
            f"a topic has 1 to {partitions_max} partitions, not {partition_count}"
        )
    if len(store.entries) >= limits.topics_max:
        raise InvalidPartitionsError(f"there are {limits.topics_max} topics, the most")
