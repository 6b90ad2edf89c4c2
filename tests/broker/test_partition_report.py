"""Partition report: what /readyz says of damage."""

from __future__ import annotations

from broker.partition_report import DAMAGE_NAMED, problems
from broker.storage.damage import Damage
from tests.support.native_broker import NativeBroker


def damage(offset: int) -> Damage:
    return Damage(0, offset * 100, offset * 100 + 100, offset, offset + 1, "the crc does not match")


def said_of(offsets: range) -> list[str]:
    with NativeBroker() as broker:
        broker.create_topic("logs")
        partition = broker.partition("logs")
        for offset in offsets:
            partition.log.damage.add(damage(offset))
        return problems(broker.manager.store.directories, [partition])


def test_given_sound_partitions_when_asked_then_nothing_is_said():
    assert said_of(range(0)) == []


def test_given_some_damage_when_asked_then_each_range_is_named():
    (sentence,) = said_of(range(0, 4, 2))

    assert sentence == (
        "partition logs-0: offset 0 is damaged (the crc does not match); the next good offset is "
        "1; offset 2 is damaged (the crc does not match); the next good offset is 3"
    )


def test_given_much_damage_when_asked_then_the_rest_is_counted():
    (sentence,) = said_of(range(0, 40, 2))

    assert sentence.count("is damaged") == DAMAGE_NAMED
    assert sentence.endswith(f"; and {20 - DAMAGE_NAMED} more")
