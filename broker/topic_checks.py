"""Topic checks: whether a topic could be created, before anything of it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.partition_table import check_is_for_clients
from broker.topic_settings import checked_settings, log_config
from protocol.errors import InvalidPartitionsError, InvalidTopicError, TopicAlreadyExistsError
from protocol.internal_topics import is_internal

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
    check_new_name(store, name)
    checked = checked_settings(settings)
    log_config(checked, store.defaults)
    check_room(store, limits, name, partition_count)
    return checked


def check_new_name(store: TopicStore, name: str) -> None:
    """Check that clients may make a topic of that name.

    Raises:
        InvalidTopicError: an illegal name, an internal topic's, or mistakable for another.
        TopicAlreadyExistsError: there is one of that name.
    """
    check_is_for_clients(name)
    if name in store.entries:
        raise TopicAlreadyExistsError(f"topic {name} exists")
    _check_not_mistakable(store, name)


def check_room(store: TopicStore, limits: LimitsConfig, name: str, partition_count: int) -> None:
    """Check that there may be one more topic, of that name and with so many partitions.

    Raises:
        InvalidTopicError: the name is mistakable for another.
        InvalidPartitionsError: the count is out of range, or there are too many topics.
    """
    _check_not_mistakable(store, name)
    partitions_max = limits.partitions_per_topic_max
    if not 1 <= partition_count <= partitions_max:
        raise InvalidPartitionsError(
            f"a topic has 1 to {partitions_max} partitions, not {partition_count}"
        )
    if len(store.entries) >= limits.topics_max:
        raise InvalidPartitionsError(f"there are {limits.topics_max} topics, the most")


def _check_not_mistakable(store: TopicStore, name: str) -> None:
    other = store.names.mistakable(name)
    if other is not None and not is_internal(name):  # what is the broker's own, it must have
        raise InvalidTopicError(
            f"topic {name} would be mistaken for topic {other}: names must differ in more than "
            "'.' and '_', which the names of metrics cannot tell apart"
        )
