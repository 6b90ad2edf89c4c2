"""Segment statistics, held against plain counting of the records that were written."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.compression import Codec
from protocol.legacy_message_set_builder import build_set
from protocol.record import Record
from protocol.record_batch_builder import build_batch
from tests.support.spark_logs import EPOCH_MS
from tidelog.segments.location import locate
from tidelog.segments.statistics.log_statistics import LogStatistics, StatisticsAim
from tidelog.segments.statistics.segment_statistics import StatisticsTask, segment_statistics

AIM = StatisticsAim(bucket_ms=1_000, late_ms=500)


def looked_at(directory, *segments, aim=AIM, **settings):
    """Write segments (lists of batches with their records), read them, append what is found."""
    found = LogStatistics(aim)
    location = locate(directory)
    for base_offset, data in segments:
        path = directory / f"{base_offset:020}.log"
        path.write_bytes(data)
        task = StatisticsTask("t", 0, str(path), base_offset, len(data), **settings)
        found.append(segment_statistics(location, task, aim))
    return found


@st.composite
def partitions(draw):
    """Batches of records (codec, records), in segments; some offsets are left out."""
    offset, segments = 0, []
    for _ in range(draw(st.integers(1, 3))):
        batches = []
        for _ in range(draw(st.integers(0, 3))):
            offset += draw(st.sampled_from([0, 0, 0, 3]))
            records = []
            for _ in range(draw(st.integers(1, 6))):
                time = EPOCH_MS + draw(st.integers(0, 3_000))
                key = draw(st.none() | st.sampled_from([b"", b"a", b"bb", b"k" * 300]))
                value = draw(st.none() | st.binary(max_size=30))
                records.append(Record(offset, time, key, value, ()))
                offset += draw(st.sampled_from([1, 1, 1, 2]))
            batches.append((draw(st.sampled_from(list(Codec))), records))
            offset = records[-1].offset + 1
        segments.append(batches)
    return segments


def written(batches):
    return b"".join(
        build_batch(records, base_offset=records[0].offset, codec=codec)
        for codec, records in batches
    )


@settings(max_examples=50, deadline=None)
@given(segments=partitions())
def test_given_any_records_when_read_then_every_figure_is_that_of_plain_counting(
    segments, tmp_path_factory
):
    directory = tmp_path_factory.mktemp("log")
    files = {batches[0][1][0].offset: written(batches) for batches in segments if batches}

    found = looked_at(directory, *files.items())

    batches = [batch for segment in segments for batch in segment]
    records = [record for _, of_batch in batches for record in of_batch]
    keys = Counter(record.key for record in records if record.key is not None)
    behind = [
        max([each.timestamp for each in records[:n]], default=0) - record.timestamp
        for n, record in enumerate(records)
    ]
    assert found.records == len(records)
    assert found.damaged_bytes == found.control_records == found.untimed == 0
    assert found.null_keys == sum(record.key is None for record in records)
    assert found.null_values == sum(record.value is None for record in records)
    assert found.distinct_keys == len(keys)
    assert dict(found.top_keys.top(9)) == {key[:64]: count for key, count in keys.items()}
    assert found.size_bytes == sum(map(len, files.values()))
    assert found.batch_records.total == len(records)
    assert found.lateness.out_of_order == sum(each > 0 for each in behind)
    assert found.lateness.late == sum(each > 500 for each in behind)
    buckets = Counter(record.timestamp // 1_000 * 1_000 for record in records)
    assert {each.start_ms: each.records for each in found.rates.buckets()} == buckets
    used = Counter(codec for codec, _ in batches)
    assert {codec: use.batches for codec, use in found.codecs.items()} == used
    raw = sum(len(written([(Codec.NONE, each)])) - 61 for _, each in batches)
    assert sum(use.raw_bytes for use in found.codecs.values()) == raw == found.record_bytes.total
    offsets = [record.offset for record in records]
    if offsets:
        span = offsets[-1] - offsets[0] + 1
        assert (found.first_offset, found.last_offset) == (offsets[0], offsets[-1])
        assert found.missing_offsets == span - len(records)
    starts = [(of_batch[0].offset, of_batch[-1].offset) for _, of_batch in batches]
    assert found.gaps == sum(later[0] > before[1] + 1 for before, later in pairwise(starts))


def some(count, start=0):
    return [(start + n, EPOCH_MS + 100 * (start + n), b"k%d" % n, b"v") for n in range(count)]


def test_given_bounds_of_offset_and_time_when_read_then_only_what_is_within(tmp_path):
    data = b"".join(build_batch(some(10, at), base_offset=at) for at in range(0, 50, 10))
    aim = AIM._replace(start_timestamp_ms=EPOCH_MS + 1_500, end_timestamp_ms=EPOCH_MS + 2_600)

    by_offset = looked_at(tmp_path, (0, data), start_offset=8, end_offset=23)
    by_time = looked_at(tmp_path, (0, data), aim=aim)

    assert by_offset.records == 15
    assert (by_offset.first_offset, by_offset.last_offset) == (8, 22)
    assert by_time.records == 11
    assert (by_time.batch_records.count, by_time.batch_records.total) == (2, 11)
    assert by_time.first_timestamp_ms == EPOCH_MS + 1_500
    assert by_time.missing_offsets == 0


def test_given_markers_and_times_that_are_none_when_read_then_they_are_counted_apart(tmp_path):
    marker = build_batch([(1, EPOCH_MS, b"\0\0\0\1", b"")], base_offset=1, is_control=True)
    untimed = build_batch([(2, -1, b"k", b"v")], base_offset=2)

    found = looked_at(tmp_path, (0, build_batch(some(1)) + marker + untimed))

    assert (found.records, found.control_records, found.untimed) == (2, 1, 1)
    assert (found.missing_offsets, found.rates.buckets()[0].records) == (0, 1)


def test_given_damage_when_read_then_it_is_left_out_and_its_bytes_are_counted(tmp_path):
    first, second = build_batch(some(3)), build_batch(some(3, 3), base_offset=3)
    bad = bytearray(first)
    bad[70] ^= 1

    found = looked_at(tmp_path, (0, bytes(bad) + second))

    assert (found.records, found.damaged_bytes) == (3, len(first))


@pytest.mark.parametrize("message_format", [0, 1])
def test_given_old_formats_when_read_then_their_records_count_as_well(message_format, tmp_path):
    records = [Record(n, EPOCH_MS, b"k", b"v%d" % n) for n in range(5)]
    old = build_set(records, magic=message_format)

    found = looked_at(tmp_path, (0, old + build_batch(some(2, 5), base_offset=5)))

    assert found.records == 7
    assert found.untimed == (5 if message_format == 0 else 0)
    assert found.missing_offsets == 0


def test_given_a_segment_that_retention_took_when_read_then_it_is_empty(tmp_path):
    task = StatisticsTask("t", 0, str(tmp_path / f"{0:020}.log"), 0, 100)

    assert segment_statistics(locate(tmp_path), task, AIM).records == 0


def test_given_an_old_message_that_cannot_be_decoded_when_read_then_only_it_is_left_out(tmp_path):
    sets = [
        build_set([Record(n, EPOCH_MS, b"k", b"v") for n in range(at, at + 4)], magic=1, codec=1)
        for at in (0, 4, 8)
    ]
    wrong = bytearray(sets[1])
    wrong[7] ^= 2  # its offset, outside of its CRC

    found = looked_at(tmp_path, (0, sets[0] + bytes(wrong) + sets[2]))

    assert (found.records, found.damaged_bytes) == (8, len(wrong))
