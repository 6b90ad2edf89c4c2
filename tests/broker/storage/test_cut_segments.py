"""Segments that a cut has removed stay gone, whatever power cut comes after new appends."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.log_storage import LogStorage


@pytest.mark.parametrize("seed", [None, *range(20)])
def test_given_a_cut_and_appends_that_reach_beyond_when_the_power_is_cut_then_only_the_new_ones(
    seed: int | None,
) -> None:
    """A segment that came back would hold its old records at offsets that have new ones."""
    storage = LogStorage()
    for number in range(3):
        storage.append(b"old-%d" % number, b"old")
        storage.flush()
        if number < 2:
            storage.log.roll()
    storage.log.truncate_to(2)
    for number in range(8):
        storage.append(b"new-%d" % number)
    storage.flush()
    before = storage.records()

    storage.crash(None if seed is None else Random(seed))

    assert storage.records() == before
    assert [value for _, value in before][2:] == [b"new-%d" % number for number in range(8)]
    storage.check_invariants()
