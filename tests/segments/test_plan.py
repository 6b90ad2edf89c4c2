"""Plan: splits of any size are all of the log, once; indexes are hints that change no answer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.compression import Codec
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import parse_header
from tests.support.segment_logs import write_partition
from tidelog.segments.errors import DataLossError
from tidelog.segments.location import locate
from tidelog.segments.log_files import list_partitions
from tidelog.segments.plan import bounds, offset_for_time, plan
from tidelog.segments.reader import ReadOptions, read_split

KAFKA = Path(__file__).resolve().parents[1] / "data" / "kafka-segments"
LOOKUPS = json.loads((KAFKA / "lookups.json").read_text())
OPTIONS = ReadOptions(columns=("offset",), chunk_bytes=300)


def offsets_by_split(
    directory: Path, start: int | None = None, end: int | None = None, split_bytes: int = 1 << 20
) -> list[list[int]]:
    location = locate(directory)
    (files,) = list_partitions(location)
    first, behind = bounds(location, files)
    splits = plan(
        location, files, first if start is None else start, behind if end is None else end,
        split_bytes=split_bytes,
    )  # fmt: skip
    return [
        [n for rows in read_split(location, split, OPTIONS) for n in rows["offset"].to_pylist()]
        for split in splits
    ]


def joined(found: list[list[int]]) -> list[int]:
    return [offset for split in found for offset in split]


batches = st.tuples(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),  # steps between offsets: cleaned logs
    st.sampled_from([Codec.NONE, Codec.LZ4]),
    st.integers(0, 300),
)
logs = st.lists(st.lists(batches, min_size=1, max_size=12), min_size=1, max_size=3)


def made(segments) -> tuple[list[list[bytes]], list[int]]:
    """Return a log's batches by segment, and its offsets."""
    offset, offsets, result = 0, [], []
    for segment in segments:
        result.append([])
        for steps, codec, size in segment:
            rows, base = [], offset
            for step in steps:
                rows.append((offset, 10**12 + offset, b"k", bytes(size)))
                offsets.append(offset)
                offset += step
            result[-1].append(build_batch(rows, base_offset=base, codec=codec))
    return result, offsets


@settings(max_examples=40, deadline=None)
@given(
    segments=logs,
    split_bytes=st.integers(1, 4000),
    ends=st.tuples(st.integers(-3, 120), st.integers(-3, 250)),
    per_entry=st.integers(1, 4),
)
def test_given_any_log_when_read_by_splits_of_any_size_then_each_offset_once_in_order(
    tmp_path_factory, segments, split_bytes, ends, per_entry
):
    directory = tmp_path_factory.mktemp("log") / "logs-0"
    written, offsets = made(segments)
    write_partition(directory, written, batches_per_entry=per_entry)

    assert joined(offsets_by_split(directory, split_bytes=split_bytes)) == offsets
    found = joined(offsets_by_split(directory, *ends, split_bytes=split_bytes))
    assert found == [each for each in offsets if ends[0] <= each < ends[1]]


def test_given_a_sound_index_when_planned_then_splits_have_about_the_size_asked_for(tmp_path):
    written, _ = made([[([1] * 5, Codec.NONE, 200)] * 40])
    write_partition(tmp_path / "logs-0", written)
    location = locate(tmp_path)
    (files,) = list_partitions(location)

    splits = plan(location, files, 0, 200, split_bytes=10_000)

    sizes = [split.end_position - split.start_position for split in splits]
    assert len(splits) == 5
    assert max(sizes) < 12_500
    finest = plan(location, files, 0, 200, split_bytes=1)  # as many as the index has entries
    assert [split.first_offset for split in finest] == list(range(0, 200, 10))
    (one,) = plan(location, files, 100, 105, split_bytes=10_000)
    assert one.end_position - one.start_position < 7_000  # not the whole file for five records


@settings(max_examples=40, deadline=None)
@given(
    suffix=st.sampled_from([".index", ".timeindex"]),
    place=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
    start=st.integers(0, 58),
    split_bytes=st.integers(200, 3000),
)
def test_given_a_flipped_bit_in_an_index_when_read_then_no_answer_changes(
    tmp_path_factory, suffix, place, bit, start, split_bytes
):
    directory = tmp_path_factory.mktemp("log") / "logs-0"
    written, offsets = made([[([1, 2], Codec.NONE, 100)] * 20])
    write_partition(directory, written)
    path = directory / f"{0:020}{suffix}"
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 1 << bit
    path.write_bytes(data)

    found = joined(offsets_by_split(directory, start, split_bytes=split_bytes))

    assert found == [each for each in offsets if each >= start]
    location = locate(directory)
    (files,) = list_partitions(location)
    assert offset_for_time(location, files, 10**12 + start) == found[0]


@pytest.mark.parametrize("wound", [*(each.name for each in (KAFKA / "damaged").iterdir()), "none"])
def test_given_kafkas_log_with_a_damaged_index_when_looked_up_then_as_kafka_answers(
    tmp_path, wound
):
    directory = tmp_path / "victim-0"
    shutil.copytree(KAFKA / "victim-0", directory)
    if wound == "none":
        for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
            path.unlink()
    else:
        shutil.copytree(KAFKA / "damaged" / wound, directory, dirs_exist_ok=True)
    location = locate(directory)
    (files,) = list_partitions(location)

    assert joined(offsets_by_split(directory, split_bytes=500)) == list(range(134))
    for start in range(134):
        assert joined(offsets_by_split(directory, start, start + 2))[0] == start
    for timestamp, (offset, _) in LOOKUPS["victim-0"]["by_timestamp"].items():
        expected = None if offset < 0 else offset
        assert offset_for_time(location, files, int(timestamp)) == expected


@pytest.mark.parametrize("partition", LOOKUPS)
def test_given_kafkas_log_when_bounds_and_times_are_asked_for_then_as_kafka_answers(partition):
    location = locate(KAFKA / partition)
    (files,) = list_partitions(location)
    lookups = LOOKUPS[partition]

    assert bounds(location, files) == (lookups["earliest"], lookups["stored_end"])
    for timestamp, (offset, _) in lookups["by_timestamp"].items():
        expected = None if offset < 0 else offset
        assert offset_for_time(location, files, int(timestamp)) == expected


def test_given_checkpoints_when_bounds_are_asked_for_then_within_them(tmp_path):
    written, _ = made([[([1] * 5, Codec.NONE, 0)] * 4])
    write_partition(tmp_path / "logs-0", written)
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nlogs 0 17\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nlogs 0 3\n")
    location = locate(tmp_path)
    (files,) = list_partitions(location)

    assert bounds(location, files) == (3, 17)
    assert offset_for_time(location, files, 0) == 3
    assert offset_for_time(location, files, 10**12 + 17) is None


def test_given_a_segment_that_is_gone_when_planned_then_its_offsets_are_told(tmp_path):
    written, _ = made([[([1] * 5, Codec.NONE, 0)]] * 2)
    directory = write_partition(tmp_path / "logs-0", written)
    location = locate(tmp_path)
    (files,) = list_partitions(location)
    (directory / f"{0:020}.log").unlink()

    with pytest.raises(DataLossError, match=r"is gone.*offsets 2 to 4"):
        plan(location, files, 2, 10)


def test_given_an_empty_partition_when_planned_then_nothing(tmp_path):
    (tmp_path / "logs-0").mkdir()
    (tmp_path / "logs-0" / f"{7:020}.log").touch()
    location = locate(tmp_path)
    (files,) = list_partitions(location)

    assert bounds(location, files) == (7, 7)
    assert plan(location, files, 0, 100) == []


def test_given_a_segment_that_was_empty_when_listed_when_planned_then_what_it_holds_now_counts(
    tmp_path,
):
    directory = tmp_path / "logs-0"
    directory.mkdir()
    path = directory / f"{0:020}.log"
    path.touch()
    location = locate(tmp_path)
    (files,) = list_partitions(location)
    ((written,),) = made([[([1] * 5, Codec.NONE, 0)]])[0]
    path.write_bytes(written)

    splits = plan(location, files, *bounds(location, files))

    assert [(split.start_offset, split.end_offset) for split in splits] == [(0, 5)]
    (rows,) = read_split(location, splits[0], OPTIONS)
    assert rows.num_rows == 5


def test_given_a_batch_with_the_offset_of_another_when_a_time_is_asked_for_then_it_is_not_believed(
    tmp_path,
):
    written, offsets = made([[([1, 1], Codec.NONE, 0)] * 8])
    (batches,) = written
    path = write_partition(tmp_path / "logs-0", written) / f"{0:020}.log"
    location = locate(tmp_path)
    (files,) = list_partitions(location)
    for number in range(1, 7):
        wrong = [*batches]
        wrong[number] = batches[number - 1][:8] + batches[number][8:]
        path.write_bytes(b"".join(wrong))

        found = [offset_for_time(location, files, 10**12 + at) for at in range(17)]

        header = parse_header(batches[number])
        sound = [n for n in offsets if not header.base_offset <= n <= header.last_offset]
        assert found == [next((n for n in sound if n >= at), None) for at in range(17)]


@pytest.mark.parametrize("place", [7, 11])  # the lowest bytes of an entry's time and its offset
def test_given_a_time_index_that_is_a_little_wrong_when_asked_then_no_answer_changes(
    tmp_path, place
):
    written, offsets = made([[([1, 2], Codec.NONE, 0)] * 8])
    path = write_partition(tmp_path / "logs-0", written) / f"{0:020}.timeindex"
    sound = path.read_bytes()
    location = locate(tmp_path)
    (files,) = list_partitions(location)
    for entry in range(0, len(sound), 12):
        for bit in range(4):
            data = bytearray(sound)
            data[entry + place] ^= 1 << bit
            path.write_bytes(data)

            found = [offset_for_time(location, files, 10**12 + at) for at in range(24)]

            assert found == [next((n for n in offsets if n >= at), None) for at in range(24)]


def test_given_an_index_with_room_behind_its_entries_when_planned_then_it_still_cuts(tmp_path):
    written, _ = made([[([1] * 5, Codec.NONE, 200)] * 40])
    path = write_partition(tmp_path / "logs-0", written) / f"{0:020}.index"
    location = locate(tmp_path)
    (files,) = list_partitions(location)
    splits = plan(location, files, 0, 200, split_bytes=10_000)

    path.write_bytes(path.read_bytes() + bytes(800))  # as a live broker's

    assert len(splits) > 1
    assert plan(location, files, 0, 200, split_bytes=10_000) == splits
