"""Segments: the immutable, sorted list."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.segments import Segments


@dataclass(frozen=True, eq=False)
class Stub:
    """All that the list knows of a segment."""

    base_offset: int


def of(*base_offsets):
    return Segments(Stub(base) for base in base_offsets)


def base(segment):
    return None if segment is None else segment.base_offset


def test_given_segments_when_looked_up_then_neighbours_are_found():
    """R15 of lists: floor, ceiling, higher and lower by base offset."""
    segments = of(100, 0, 40)

    found = [
        tuple(
            map(
                base,
                (segments.floor(n), segments.lower(n), segments.ceiling(n), segments.higher(n)),
            )
        )
        for n in (-1, 0, 39, 40, 100, 101)
    ]

    assert found == [
        (None, None, 0, 0),
        (0, None, 0, 40),
        (0, 0, 40, 40),
        (40, 0, 40, 100),
        (100, 40, 100, None),
        (100, 100, None, None),
    ]


def test_given_an_empty_list_when_asked_then_there_is_nothing():
    segments = Segments()

    answers = [segments.first, segments.active, segments.floor(5), segments.ceiling(5)]

    assert answers == [None] * 4
    assert segments.range(0, 100) == ()
    assert len(segments) == 0


def test_given_segments_when_listed_then_they_are_in_order_and_the_last_is_active():
    segments = of(100, 0, 40)

    bases = [base(segment) for segment in segments]

    assert bases == [0, 40, 100] == list(segments.base_offsets)
    assert [base(each) for each in reversed(segments)] == [100, 40, 0]
    assert (base(segments.first), base(segments.active), base(segments[1])) == (0, 100, 40)


@pytest.mark.parametrize(
    ("from_offset", "to_offset", "expected"),
    [
        (0, 1, [0]),
        (39, 40, [0]),
        (39, 41, [0, 40]),
        (40, 100, [40]),
        (50, 1_000, [40, 100]),
        (-5, 1_000, [0, 40, 100]),
        (500, 1_000, [100]),
        (-5, 0, []),
        (50, 50, []),
        (50, 20, []),
    ],
)
def test_given_a_range_of_offsets_when_asked_then_those_that_may_hold_them_come(
    from_offset, to_offset, expected
):
    segments = of(0, 40, 100)

    found = [base(segment) for segment in segments.range(from_offset, to_offset)]

    assert found == expected


def test_given_a_reader_when_the_list_changes_then_it_keeps_its_own():
    """R39: the list is replaced whole, so reads under way keep theirs."""
    segments = of(0, 40, 100)
    held = list(segments)

    added = segments.with_added(Stub(200))
    removed = added.without(segments[0], segments[1])
    replaced = added.replaced([segments[0], segments[1]], [Stub(7)])

    assert list(segments) == held
    assert added.base_offsets == (0, 40, 100, 200)
    assert removed.base_offsets == (100, 200)
    assert replaced.base_offsets == (7, 100, 200)
    assert base(added.active) == 200
    assert segments[0] in segments
    assert segments[0] not in removed


def test_given_a_wrong_change_when_made_then_it_is_an_error():
    segments = of(0, 40)

    with pytest.raises(ValueError):
        segments.with_added(Stub(40))
    with pytest.raises(ValueError):
        segments.without(Stub(40))
    with pytest.raises(ValueError):
        segments.replaced([segments[0]], [Stub(40)])

    assert segments.base_offsets == (0, 40)


@given(bases=st.sets(st.integers(0, 60)), offset=st.integers(-1, 62))
def test_given_any_segments_when_looked_up_then_it_is_as_by_a_scan(bases, offset):
    segments = of(*bases)

    floor, ceiling = base(segments.floor(offset)), base(segments.ceiling(offset))

    assert floor == max((each for each in bases if each <= offset), default=None)
    assert ceiling == min((each for each in bases if each >= offset), default=None)
