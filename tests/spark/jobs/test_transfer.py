"""Transfer: which offsets a round has, by the one before it."""

from __future__ import annotations

import pytest

from tidelog.spark.jobs.job import JobError
from tidelog.spark.jobs.transfer import _new_ranges
from tidelog.spark.jobs.transfer_notes import Round

LAST = Round(number=0, source="a", target="b", ranges={0: (5, 40), 1: (0, 0)}, bases={0: 0, 1: 0})


@pytest.mark.parametrize(
    ("last", "ends", "ranges"),
    [
        (None, {0: (5, 40)}, {0: (5, 40)}),
        (None, {0: (5, 5)}, {}),
        (LAST, {0: (5, 40), 1: (0, 0)}, {}),
        (LAST, {0: (9, 60), 1: (0, 0)}, {0: (40, 60), 1: (0, 0)}),
        (LAST, {0: (5, 40), 1: (0, 0), 2: (7, 9)}, {0: (40, 40), 1: (0, 0), 2: (7, 9)}),
    ],
)
def test_given_a_round_when_the_next_is_planned_then_it_has_what_none_has_had(last, ends, ranges):
    assert _new_ranges(last, ends) == ranges


def test_given_a_source_that_is_shorter_than_was_copied_when_planned_then_it_is_said():
    with pytest.raises(JobError, match="ends at offset 30, and was copied up to 40: it is another"):
        _new_ranges(LAST, {0: (0, 30), 1: (0, 0)})
