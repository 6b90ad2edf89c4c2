"""ProducerIds: each id is given once, whatever restarts there are."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from broker import topic_registry
from broker.producer_ids import BLOCK, ProducerIds
from broker.topic_registry import TopicRegistry


class Store:
    """The one method of a TopicStore that is needed, over a real registry."""

    def __init__(self, registry: TopicRegistry) -> None:
        self._registry = registry

    async def take_producer_ids(self, count: int, first_min: int) -> int:
        return self._registry.take_producer_ids(count, first_min)


def ids_over(registry: TopicRegistry, largest_in_use: int = -1) -> ProducerIds:
    return ProducerIds(Store(registry), lambda: largest_in_use)  # type: ignore[arg-type]


async def test_given_restarts_when_ids_are_taken_then_none_comes_twice(tmp_path: Path) -> None:
    taken = []
    for _ in range(3):
        registry = TopicRegistry.open(tmp_path / "registry")
        ids = ids_over(registry)
        taken += [await ids.take() for _ in range(BLOCK + 2)]
        registry.close()

    assert len(set(taken)) == len(taken) == 3 * (BLOCK + 2)
    assert min(taken) == 0


async def test_given_logs_of_kafkas_when_the_first_id_is_taken_then_above_theirs(
    tmp_path: Path,
) -> None:
    registry = TopicRegistry.open(tmp_path / "registry")

    first = await ids_over(registry, 4_711).take()
    # what a client claims later moves nothing
    second = await ids_over(registry, 2**62 - 1).take()

    assert (first, second) == (4_712, 4_712 + BLOCK)


def test_given_a_registry_of_the_first_schema_when_opened_then_it_is_migrated(
    tmp_path: Path,
) -> None:
    path = tmp_path / "registry"
    old = sqlite3.connect(path)
    old.executescript(f"{topic_registry._SCHEMA} PRAGMA user_version = 1;")
    old.execute(
        "INSERT INTO topics (name, topic_id, partition_count) VALUES ('t', x'%s', 3)" % ("07" * 16)
    )
    old.commit()
    old.close()

    for first in (0, BLOCK):
        registry = TopicRegistry.open(path)
        assert [entry.name for entry in registry.topics()] == ["t"]
        assert registry.take_producer_ids(BLOCK, 0) == first
        registry.close()


async def test_given_many_producers_when_blocks_are_taken_then_they_are_looked_through_once(
    tmp_path: Path,
) -> None:
    looks = []

    def largest_in_use() -> int:
        looks.append(1)
        return -1

    store = Store(TopicRegistry.open(tmp_path / "registry"))
    ids = ProducerIds(store, largest_in_use)  # type: ignore[arg-type]
    taken = [await ids.take() for _ in range(2 * BLOCK + 1)]

    assert (len(looks), taken) == (1, list(range(2 * BLOCK + 1)))
