"""Boundaries: what an offset index says, where the log confirms it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from protocol.limits import INT64_MAX
from protocol.record_batch_builder import build_batch
from tidelog.segments.boundaries import Boundary, boundary_at
from tidelog.segments.index_files import OffsetHints
from tidelog.segments.log_files import SegmentFile

BATCHES = [build_batch([(n, 5, b"k", b"v")], base_offset=n) for n in range(12)]
SIZE = len(BATCHES[0])
BEGIN = Boundary(0, 0)


def boundary(batches: list[bytes], offset: int, position: int) -> Boundary:
    """Return what the second entry of an index leads to."""
    data = b"".join(batches)
    hints = OffsetHints(np.array([3, offset]), np.array([3 * SIZE, position]))
    segment = SegmentFile("0.log", 0, len(data))
    return boundary_at(pa.BufferReader(data), segment, hints, 1, len(data), INT64_MAX)


@pytest.mark.parametrize("offset", [8, 9, 10])
def test_given_the_last_offset_of_an_append_when_looked_up_then_its_first_batch(offset):
    assert boundary(BATCHES, offset, 8 * SIZE) == (8 * SIZE, 8)


@pytest.mark.parametrize("offset", [6, 9])
def test_given_a_batch_with_another_offset_when_looked_up_then_it_is_not_believed(offset):
    """Its CRC is right: it does not cover the offset."""
    changed = build_batch([(8, 5, b"k", b"v")], base_offset=8)
    batches = [*BATCHES[:8], offset.to_bytes(8, "big") + changed[8:], *BATCHES[9:]]

    assert boundary(batches, 10, 8 * SIZE) == BEGIN


@pytest.mark.parametrize(("offset", "position"), [(8, 8 * SIZE + 1), (8, 12 * SIZE), (2, 8 * SIZE)])
def test_given_an_entry_that_is_wrong_when_looked_up_then_the_segments_begin(offset, position):
    assert boundary(BATCHES, offset, position) == BEGIN
