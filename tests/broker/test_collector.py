"""The collector is kept from what stays, and looks again when enough of that is gone."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from broker.collector import DELETED_MAX, PARTITIONS_MIN, Collector


@pytest.fixture(autouse=True)
def collector_as_before() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.enable()


def test_given_many_partitions_when_made_then_nothing_is_collected_and_they_are_left_alone():
    with Collector().making(PARTITIONS_MIN):
        was_collecting = gc.isenabled()
        made = [[number] for number in range(1_000)]

    assert (was_collecting, gc.isenabled()) == (False, True)
    assert gc.get_freeze_count() >= len(made)


def test_given_few_partitions_when_made_then_the_collector_goes_on():
    with Collector().making(PARTITIONS_MIN - 1):
        was_collecting = gc.isenabled()

    assert was_collecting
    assert gc.get_freeze_count() == 0


def test_given_an_error_while_partitions_are_made_when_over_then_the_collector_is_on_again():
    with pytest.raises(OSError), Collector().making(PARTITIONS_MIN):
        raise OSError("the disk refused")

    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_given_many_deleted_partitions_when_enough_then_all_is_looked_through_again():
    collector = Collector()
    with collector.making(PARTITIONS_MIN):
        pass

    collector.deleted(DELETED_MAX - 1)
    still_frozen = gc.get_freeze_count()
    collector.deleted(1)

    assert still_frozen
    assert gc.get_freeze_count() == 0
