"""Task groups: sizes of tasks, whatever the sizes of files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.task_groups import GROUP_BYTES, grouped

SIZES = st.lists(st.integers(0, 3 * GROUP_BYTES), max_size=40)


@given(sizes=SIZES, slots=st.integers(1, 8))
def test_given_files_of_any_size_when_grouped_then_all_are_there_once_and_no_group_is_too_large(
    sizes, slots
):
    pieces = list(enumerate(sizes))

    groups = grouped(pieces, lambda piece: piece[1], slots=slots)

    assert sorted(piece for group in groups for piece in group) == pieces
    totals = [sum(size for _, size in group) for group in groups]
    assert totals == sorted(totals, reverse=True)
    for group, total in zip(groups, totals, strict=True):
        assert len(group) == 1 or total <= GROUP_BYTES
        numbers = [number for number, _ in group]
        assert numbers == list(range(numbers[0], numbers[0] + len(group)))


@pytest.mark.parametrize(("count", "groups"), [(1_000, 8), (4, 4), (0, 0)])
def test_given_little_data_when_grouped_then_each_core_still_has_some(count, groups):
    assert len(grouped(range(count), lambda _: 1_000, slots=2)) == groups
