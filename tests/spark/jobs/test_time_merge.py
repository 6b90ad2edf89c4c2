"""Streams put together by time, against a sort of all records."""

import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.jobs.time_merge import merge_by_time

STREAMS = st.lists(st.lists(st.integers(-3, 12), max_size=15), max_size=4)


def batches(name, times, sizes):
    """The records of a stream, in pieces of these sizes, some of them empty."""
    rows, at = [(name, place, time) for place, time in enumerate(times)], 0
    for size in itertools.chain(sizes, itertools.repeat(5)):
        if at >= len(rows):
            return
        piece, at = rows[at : at + size], at + size
        yield pa.RecordBatch.from_pydict(
            {
                "timestamp": pa.array([row[2] for row in piece], pa.timestamp("us", tz="UTC")),
                "stream": pa.array([row[0] for row in piece], pa.int32()),
                "place": pa.array([row[1] for row in piece], pa.int32()),
            }
        )


def merged(streams, sizes):
    found = merge_by_time([batches(at, times, sizes) for at, times in enumerate(streams)])
    columns = (zip(rows["stream"], rows["place"], strict=True) for rows in found)
    return [(stream.as_py(), place.as_py()) for each in columns for stream, place in each]


@given(streams=STREAMS, sizes=st.lists(st.integers(0, 4), max_size=8))
def test_given_any_streams_when_merged_then_by_time_and_none_out_of_its_own_order(streams, sizes):
    expected = sorted(
        (largest, stream, place)
        for stream, times in enumerate(streams)
        for place, largest in enumerate(itertools.accumulate(times, max))
    )

    assert merged(streams, sizes) == [(stream, place) for _, stream, place in expected]
