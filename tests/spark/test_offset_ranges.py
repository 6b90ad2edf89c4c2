"""OffsetRanges: which offsets are read, by the rules of Spark's Kafka source."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.identifiers import TopicPartition
from tidelog.segments.errors import DataLossError, OptionError
from tidelog.spark.offset_ranges import (
    Bounds,
    OffsetRange,
    batch_ranges,
    divide,
    fair_share,
    offsets_from_json,
    offsets_to_json,
    stream_ends,
    stream_ranges,
    stream_starts,
    stream_target,
)
from tidelog.spark.options import SEGMENTS_OPTIONS, parse_options

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class There:
    """Partitions whose record of offset n has the time n * 10 ms."""

    def __init__(self, *deleted: TopicPartition, **bounds: tuple[int, int]) -> None:
        self.deleted = deleted  # since all were listed
        self.there = {
            TopicPartition(name[0], int(name[1:])): Bounds(*each) for name, each in bounds.items()
        }

    def all(self):
        return [*self.deleted, *reversed(self.there)]

    def bounds(self, partitions):
        return {each: self.there[each] for each in partitions if each in self.there}

    def offset_for_time(self, partition, timestamp_ms):
        earliest, end = self.there[partition]
        offset = max(earliest, -(-timestamp_ms // 10))
        return offset if offset < end else None


def options(**raw: str):
    return parse_options(raw, SEGMENTS_OPTIONS)


ALL = There(a0=(5, 20), a1=(0, 10), b0=(0, 0))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({}, [(A0, 5, 20), (A1, 0, 10)]),
        ({"subscribe": "b"}, []),
        ({"startingOffsets": '{"a":{"0":7,"1":-2},"b":{"0":0}}'}, [(A0, 7, 20), (A1, 0, 10)]),
        ({"assign": '{"a":[1]}', "endingOffsets": '{"a":{"1":4}}'}, [(A1, 0, 4)]),
        ({"assign": '{"a":[0]}', "endingOffsets": '{"a":{"0":-1}}'}, [(A0, 5, 20)]),
        (
            {"subscribe": "a", "startingTimestamp": "61", "endingTimestamp": "150"},
            [(A0, 7, 15), (A1, 7, 10)],
        ),
        (
            {"assign": '{"a":[0]}', "startingOffsetsByTimestamp": '{"a":{"0":100}}'},
            [(A0, 10, 20)],
        ),
        (
            {
                "subscribe": "a",
                "startingTimestamp": "150",
                "startingOffsetsByTimestampStrategy": "latest",
            },
            [(A0, 15, 20)],
        ),
        ({"assign": '{"a":[0]}', "startingOffsets": '{"a":{"0":9}}', "endingTimestamp": "60"}, []),
    ],
)
def test_given_options_when_a_batch_is_planned_then_it_reads_these_offsets(raw, expected):
    assert [tuple(each) for each in batch_ranges(options(**raw), ALL)] == expected


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({"subscribe": "a,c"}, "c is not there; there is a, b"),
        ({"assign": '{"a":[0,9]}'}, "a-9 is not there"),
        ({"startingOffsets": '{"a":{"0":7}}'}, "must name the partitions read: it lacks a-1, b-0"),
        (
            {"assign": '{"a":[0]}', "endingOffsets": '{"a":{"0":7,"1":7}}'},
            "of the ending offsets must name the partitions read: it has a-1 as well",
        ),
        ({"subscribe": "a", "startingTimestamp": "150"}, "a-1 has no record as late as 150 ms"),
    ],
)
def test_given_options_that_do_not_fit_what_is_there_when_planned_then_one_says_so(raw, sentence):
    with pytest.raises(OptionError, match=sentence):
        batch_ranges(options(**raw), ALL)


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        ({"startingOffsets": '{"a":{"0":3}}'}, [(A0, 5, 20)]),
        ({"endingOffsets": '{"a":{"0":21}}'}, [(A0, 5, 20)]),
        ({"startingOffsets": '{"a":{"0":30}}'}, []),
    ],
)
def test_given_offsets_that_are_gone_when_planned_then_it_fails_unless_told_to_go_on(raw, left):
    raw = {"assign": '{"a":[0]}', **raw}

    with pytest.raises(
        DataLossError, match="of a-0 were asked for, it has 5 to 19; failOnDataLoss"
    ):
        batch_ranges(options(**raw), ALL)
    assert batch_ranges(options(**raw, failOnDataLoss="false"), ALL) == left


def test_given_a_stream_when_it_starts_then_at_the_latest_or_where_told():
    assert stream_starts(options(), ALL) == {A0: 20, A1: 10, B0: 0}
    assert stream_starts(options(startingOffsets="earliest"), ALL) == {A0: 5, A1: 0, B0: 0}
    assert stream_starts(options(subscribe="a", startingTimestamp="60"), ALL) == {A0: 6, A1: 6}


def test_given_a_partition_that_is_new_when_streamed_then_from_its_first_offset():
    started = {A0: 20}
    begins, ends = stream_ends(options(), ALL, started)

    assert begins == {A0: 20, A1: 0, B0: 0}
    assert ends == {A0: 20, A1: 10, B0: 0}
    assert stream_ranges(options(), ALL, started, ends) == [(A1, 0, 10)]
    with pytest.raises(DataLossError, match="offsets 0 to 19 of a-0 were asked for"):
        stream_ranges(options(), ALL, {}, ends)


def test_given_a_partition_that_is_gone_or_shorter_when_streamed_then_it_fails_or_goes_on():
    go_on = options(failOnDataLoss="false")
    shorter, gone = There(a0=(5, 12)), There(a1=(0, 10))

    with pytest.raises(DataLossError, match="a-0 was read up to 20 and ends at 12 now"):
        stream_ends(options(), shorter, {A0: 20})
    with pytest.raises(DataLossError, match="a-0 is there no more"):
        stream_ends(options(), gone, {A0: 20})
    with pytest.raises(DataLossError, match="a-0 is there no more"):
        stream_ranges(options(), gone, {A0: 5}, {A0: 20})
    assert stream_ends(go_on, shorter, {A0: 20})[1] == {A0: 20}
    assert stream_ends(go_on, gone, {A0: 20})[1] == {A1: 10}
    assert stream_ranges(go_on, gone, {A0: 5}, {A0: 20}) == []
    assert stream_ranges(go_on, shorter, {A0: 5}, {A0: 20}) == [(A0, 5, 12)]


def test_given_a_topic_that_is_deleted_while_it_is_planned_then_that_is_loss():
    there = There(B0, a0=(0, 5))

    with pytest.raises(DataLossError, match="b-0 is there no more; failOnDataLoss"):
        batch_ranges(options(), there)
    assert batch_ranges(options(failOnDataLoss="false"), there) == [(A0, 0, 5)]


@pytest.mark.parametrize("raw", [{"subscribe": "a,b"}, {"assign": '{"a":[0],"b":[0]}'}])
def test_given_a_topic_that_was_named_and_is_deleted_when_streamed_then_that_is_loss(raw):
    there, read = There(a0=(0, 5)), {A0: 2, B0: 7}

    with pytest.raises(OptionError, match=r"b.* is not there; there is a"):
        stream_starts(options(**raw), there)
    with pytest.raises(DataLossError, match="b-0 is there no more"):
        stream_ends(options(**raw), there, read)
    go_on = options(**raw, failOnDataLoss="false")
    assert stream_ends(go_on, there, read) == ({A0: 2}, {A0: 5})
    assert stream_target(options(**raw), there) == {A0: 5}


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 100)), min_size=1, max_size=6),
    st.integers(1, 150),
)
def test_given_any_lengths_when_shared_then_all_advance_and_the_limit_nearly_holds(
    lengths, offsets_max
):
    starts = {TopicPartition("t", n): start for n, (start, _) in enumerate(lengths)}
    ends = {TopicPartition("t", n): sum(each) for n, each in enumerate(lengths)}

    shared = fair_share(starts, ends, offsets_max)

    assert all(starts[each] <= shared[each] <= ends[each] for each in ends)
    assert all(shared[each] > starts[each] for each in ends if ends[each] > starts[each])
    assert sum(shared.values()) - sum(starts.values()) <= offsets_max + len(lengths)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 100)), min_size=1, max_size=5),
    st.integers(1, 40),
)
def test_given_any_ranges_when_divided_then_every_offset_is_in_one_and_none_is_empty(
    lengths, count_min
):
    ranges = [
        OffsetRange(TopicPartition("t", n), start, start + length)
        for n, (start, length) in enumerate(lengths)
    ]

    divided = divide(ranges, count_min)

    total = sum(length for _, length in lengths)
    assert len(divided) >= min(count_min, total)
    assert all(each.start < each.end for each in divided)
    assert [(each.partition, n) for each in divided for n in range(each.start, each.end)] == [
        (each.partition, n) for each in ranges for n in range(each.start, each.end)
    ]


def test_given_offsets_when_written_as_json_then_the_same_text_in_any_order_and_back():
    offsets = {A0: 5, A1: 7, B0: 0}
    other_order = {B0: 0, A1: 7, A0: 5}

    text = json.dumps(offsets_to_json(offsets))

    assert text == '{"a": {"0": 5, "1": 7}, "b": {"0": 0}}'
    assert json.dumps(offsets_to_json(other_order)) == text
    assert offsets_from_json(json.loads(text)) == offsets
