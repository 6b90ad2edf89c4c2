"""Strategies for legacy message sets."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import strategies as st

from protocol.compression import Codec
from protocol.record import Record

MAGICS = st.sampled_from([0, 1])
CODECS = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
BYTES_OR_NULL = st.none() | st.binary(max_size=40)
TIMESTAMPS = st.integers(-1, 2**42)


@st.composite
def records(draw, min_size=0, max_size=8):
    """Records with growing offsets, gaps among them, and no headers."""
    gaps = draw(st.lists(st.integers(1, 5), min_size=min_size, max_size=max_size))
    first = draw(st.integers(0, 2**40))
    return [
        Record(first + step, draw(TIMESTAMPS), draw(BYTES_OR_NULL), draw(BYTES_OR_NULL))
        for step in accumulate(gaps)
    ]


def without_timestamps(some_records):
    """What is left of them in v0."""
    return [record._replace(timestamp=-1) for record in some_records]
