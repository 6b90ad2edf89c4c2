"""LogOffsetMetadata: comparing offsets, segments and positions."""

from __future__ import annotations

import pytest

from broker.storage.offset_metadata import (
    UNKNOWN_OFFSET_METADATA,
    FetchData,
    LogOffsetMetadata,
)

ONLY_OFFSET = LogOffsetMetadata(7)
IN_FIRST = LogOffsetMetadata(5, 0, 500)
LATER_IN_FIRST = LogOffsetMetadata(9, 0, 900)
IN_SECOND = LogOffsetMetadata(12, 10, 200)


def test_given_two_offsets_when_compared_then_the_offset_alone_decides():
    """R34: ordered by offset difference, `precedes` and `offset_diff`, segment known or not."""
    shuffled = [IN_SECOND, ONLY_OFFSET, LATER_IN_FIRST, IN_FIRST]

    ordered = sorted(shuffled)

    assert ordered == [IN_FIRST, ONLY_OFFSET, LATER_IN_FIRST, IN_SECOND]
    assert IN_FIRST.precedes(ONLY_OFFSET)
    assert not IN_SECOND.precedes(ONLY_OFFSET)
    assert IN_SECOND.offset_diff(ONLY_OFFSET) == 5
    assert IN_FIRST.offset_diff(ONLY_OFFSET) == -2
    assert IN_FIRST <= LogOffsetMetadata(5) >= IN_FIRST
    assert IN_SECOND > ONLY_OFFSET


def test_given_known_segments_when_compared_then_segment_and_position_differences_are_told():
    """R34: `on_older_segment`, `on_same_segment`, `position_diff` with both sides known."""
    older, same = IN_FIRST.on_older_segment(IN_SECOND), IN_FIRST.on_same_segment(LATER_IN_FIRST)

    difference = LATER_IN_FIRST.position_diff(IN_FIRST)

    assert older
    assert same
    assert not IN_SECOND.on_older_segment(IN_FIRST)
    assert difference == 400


@pytest.mark.parametrize("method", ["on_older_segment", "on_same_segment", "position_diff"])
@pytest.mark.parametrize(
    ("left", "right"),
    [(ONLY_OFFSET, IN_FIRST), (IN_FIRST, ONLY_OFFSET), (ONLY_OFFSET, ONLY_OFFSET)],
)
def test_given_only_an_offset_when_segments_are_compared_then_it_raises(method, left, right):
    """R34: raise when either side has only the message offset."""
    comparison = getattr(left, method)

    with pytest.raises(ValueError) as error:
        comparison(right)

    assert "only an offset is known" in str(error.value)


def test_given_different_segments_when_positions_are_compared_then_it_raises():
    """R34: `position_diff` also raises across segments."""
    with pytest.raises(ValueError) as error:
        IN_SECOND.position_diff(IN_FIRST)

    assert "different segments" in str(error.value)


def test_given_the_unknown_constant_when_asked_then_it_is_below_every_offset():
    """R34: constants for unknown."""
    unknown = UNKNOWN_OFFSET_METADATA

    only = unknown.message_offset_only()

    assert only
    assert unknown.message_offset == -1
    assert unknown < LogOffsetMetadata(0)
    assert not IN_FIRST.message_offset_only()


def test_given_equal_offsets_in_different_places_when_compared_then_they_are_not_equal():
    """R34: equality needs segment and position too (the high watermark moves to a new segment)."""
    old_segment, new_segment = LogOffsetMetadata(10, 0, 1000), LogOffsetMetadata(10, 10, 0)

    twin = LogOffsetMetadata(10, 10, 0)

    assert old_segment != new_segment
    assert new_segment == twin
    assert hash(new_segment) == hash(twin)
    assert new_segment != 10


def test_given_nothing_read_when_fetch_data_is_made_then_it_keeps_the_metadata():
    """R22: an empty answer has its metadata."""
    answer = FetchData(IN_FIRST, (), 0)

    metadata, slices, size_bytes = answer

    assert (metadata, slices, size_bytes) == (IN_FIRST, (), 0)
