"""Sketches, held against exact answers; and in pieces, against one sketch of the whole."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.segments.statistics.sketches.heavy_hitters import HeavyHitters
from tidelog.segments.statistics.sketches.hyperloglog import STANDARD_ERROR, HyperLogLog
from tidelog.segments.statistics.sketches.lateness import HEAD_RECORDS, Lateness
from tidelog.segments.statistics.sketches.log_histogram import RELATIVE_ERROR, LogHistogram
from tidelog.segments.statistics.sketches.span_hash import hash_spans
from tidelog.segments.statistics.sketches.time_buckets import TimeBuckets

FEW = settings(max_examples=50, deadline=None)


def hashes_of(values):
    buffer = np.frombuffer(b"".join(values), dtype=np.uint8)
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    starts = ends - np.array([len(value) for value in values], dtype=np.int64)
    return hash_spans(buffer, starts, ends)


# --- hashes ---------------------------------------------------------------------------------------


@FEW
@given(values=st.lists(st.binary(max_size=40) | st.binary(min_size=250, max_size=300)))
def test_given_byte_strings_when_hashed_then_equal_ones_and_only_those_are_equal(values):
    found = hashes_of([*values, *reversed(values)]).tolist()

    assert found == [*found[: len(values)], *reversed(found[: len(values)])]
    assert len(set(found)) == len(set(values))


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 17, 256, 257])
def test_given_strings_that_differ_in_a_byte_when_hashed_then_half_of_the_bits_differ(size):
    value = bytes(size)
    others = [value[:n] + b"\1" + value[n + 1 :] for n in range(size)]

    found = hashes_of([value, *others])

    changed = [(int(found[0]) ^ int(other)).bit_count() for other in found[1:]]
    assert min(changed) >= 10
    assert max(changed) <= 54


# --- HyperLogLog ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 100, 5_000, 40_000, 300_000])
def test_given_different_keys_when_estimated_then_within_three_standard_errors(count):
    whole, first, second = HyperLogLog(), HyperLogLog(), HyperLogLog()
    hashes = hashes_of([b"user-%d" % number for number in range(count)])

    whole.add(np.concatenate([hashes, hashes]))
    first.add(hashes[: count // 2])
    second.add(hashes[count // 3 :])
    first.merge(second)

    assert abs(whole.estimate() - count) <= max(3 * STANDARD_ERROR * count, 0.5)
    assert (first.registers == whole.registers).all()


# --- sizes ----------------------------------------------------------------------------------------


@FEW
@given(
    pieces=st.lists(st.lists(st.integers(0, 2**31)), min_size=1, max_size=3),
    share=st.sampled_from([0, 0.25, 0.5, 0.9, 0.99, 1]),
)
def test_given_sizes_when_a_quantile_is_asked_for_then_it_is_within_one_per_cent(pieces, share):
    found = LogHistogram()
    for piece in pieces:
        part = LogHistogram()
        part.add(np.array(piece, dtype=np.int64))
        found.merge(part)
    sizes = sorted(size for piece in pieces for size in piece)

    if not sizes:
        assert found.quantile(share) is None
        return
    exact = sizes[int(share * (len(sizes) - 1))]
    assert found.quantile(share) == pytest.approx(exact, rel=RELATIVE_ERROR * 1.001)
    assert (found.count, found.total) == (len(sizes), sum(sizes))
    assert sum(count for _, count in found.powers_of_two()) == len(sizes)


# --- top keys -------------------------------------------------------------------------------------


def counted(values, capacity):
    sketch = HeavyHitters(capacity)
    if values:
        sketch.add(hashes_of(values), lambda row: values[row])
    return sketch


@FEW
@given(pieces=st.lists(st.lists(st.binary(max_size=2)), max_size=4))
def test_given_few_keys_when_counted_then_the_counts_are_exact(pieces):
    sketch = HeavyHitters(100_000)
    for piece in pieces:
        sketch.merge(counted(piece, 100_000))

    exact = Counter(value for piece in pieces for value in piece)
    assert sketch.error == 0
    assert dict(sketch.top(100_000)) == exact
    counts = [each.times for each in sketch.top(5)]
    assert counts == sorted(exact.values(), reverse=True)[:5]


@pytest.mark.parametrize("seed", range(3))
def test_given_more_keys_than_room_when_counted_then_counts_are_within_the_error(seed):
    source = random.Random(seed)
    values = [b"%d" % int(source.paretovariate(0.9)) for _ in range(20_000)]
    sketch = HeavyHitters(64)
    for begin in range(0, len(values), 3_000):
        sketch.merge(counted(values[begin : begin + 3_000], 64))

    exact = Counter(values)
    assert 0 < sketch.error <= len(values) / 65
    assert len(sketch) <= 64
    for name, count in sketch.top(64):
        assert count <= exact[name] <= count + sketch.error
    often = {name for name, count in exact.items() if count > sketch.error}
    assert often <= {name for name, _ in sketch.top(64)}


# --- time -----------------------------------------------------------------------------------------


@FEW
@given(
    pieces=st.lists(st.lists(st.integers(0, 100_000)), min_size=1, max_size=3),
    buckets_max=st.sampled_from([1, 7, 1_000]),
)
def test_given_times_when_counted_then_every_bucket_has_what_falls_into_it(pieces, buckets_max):
    found = TimeBuckets(10, buckets_max=buckets_max)
    for piece in pieces:
        part = TimeBuckets(10, buckets_max=buckets_max)
        times = np.array(piece, dtype=np.int64)
        part.add(times, times + 1)
        found.merge(part)
    times = [time for piece in pieces for time in piece]
    width = found.width_ms

    exact = Counter(time // width * width for time in times)
    assert {each.start_ms: each.records for each in found.buckets()} == exact
    assert sum(each.size_bytes for each in found.buckets()) == sum(times) + len(times)
    assert len(exact) <= buckets_max
    assert width == 10 or len({time // (width // 2) for time in times}) > buckets_max


def lateness_of(times, cuts):
    found = Lateness(100)
    for begin, end in zip([0, *cuts], [*cuts, len(times)], strict=True):
        part = Lateness(100)
        for at in range(begin, end, 3_000):
            part.add(np.array(times[at : min(at + 3_000, end)], dtype=np.int64))
        found.append(part)
    return found


@FEW
@given(
    times=st.lists(st.integers(0, 1_000), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=3),
)
def test_given_times_in_pieces_when_appended_then_lateness_is_that_of_the_whole(times, cuts):
    cuts = sorted(min(cut, len(times)) for cut in cuts)
    behind = [max(times[:place], default=0) - time for place, time in enumerate(times)]

    found = lateness_of(times, cuts)

    assert found.is_exact
    assert found.out_of_order == sum(each > 0 for each in behind)
    assert found.late == sum(each > 100 for each in behind)
    assert found.latest_by_ms == max([0, *behind])


def test_given_a_piece_that_stays_behind_for_long_when_appended_then_it_is_not_called_exact():
    behind = list(range(HEAD_RECORDS + 10))

    found = lateness_of([10_000_000, *behind], [1])

    assert not found.is_exact
    assert found.out_of_order == HEAD_RECORDS  # at least, of ten more
