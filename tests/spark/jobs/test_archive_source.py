"""ArchiveSource: pieces of a directory follow one another, whatever its cleaner has left."""

from __future__ import annotations

import itertools

import pytest

from protocol.identifiers import TopicPartition
from tests.support.spark_logs import some_records, write_partition
from tidelog.segments.read_options import ReadOptions
from tidelog.spark.jobs.archive_source import DirectorySource
from tidelog.spark.own_topics import NOTES_TOPIC

KEY = TopicPartition("web", 0)


@pytest.mark.parametrize("size_bytes", [1, 3_000, 1 << 30])
def test_given_segments_that_were_emptied_when_cut_then_pieces_follow_one_another(
    tmp_path, size_bytes
):
    write_partition(tmp_path, *KEY, some_records(250, start=120))
    for emptied in (0, 60):
        (tmp_path / "web-0" / f"{emptied:020}.log").touch()
    source = DirectorySource(str(tmp_path), None)
    start, end = source.bounds()[KEY]

    pieces = source.pieces(KEY, start, end, size_bytes)

    cuts = [piece.start for piece in pieces]
    assert (start, end) == (0, 370)
    assert [*cuts, end] == [start, *(piece.end for piece in pieces)]
    assert all(before < after for before, after in itertools.pairwise(cuts))
    options = ReadOptions(columns=("offset",))
    found = [
        (offset, number)
        for number, piece in enumerate(pieces)
        for rows in source.batches(piece, options)
        for offset in rows["offset"].to_pylist()
    ]
    assert [offset for offset, _ in found] == list(range(120, 370))
    assert all(pieces[number].start <= offset < pieces[number].end for offset, number in found)


def test_given_nothing_but_emptied_segments_when_cut_then_one_piece_of_no_records(tmp_path):
    write_partition(tmp_path, *KEY, some_records(10, start=100))
    (tmp_path / "web-0" / f"{0:020}.log").touch()
    source = DirectorySource(str(tmp_path), None)
    source.bounds()

    (piece,) = source.pieces(KEY, 0, 100, 1_000)

    assert (piece.start, piece.end) == (0, 100)
    assert list(source.batches(piece, ReadOptions())) == []


def test_given_no_wish_when_asked_for_topics_then_all_but_those_that_a_broker_keeps_for_itself(
    tmp_path,
):
    for topic in ("web", "__heartbeats", "__consumer_offsets", NOTES_TOPIC):
        write_partition(tmp_path, topic, 0, some_records(5))

    found = [
        {partition.topic for partition in DirectorySource(str(tmp_path), topics).bounds()}
        for topics in (None, [NOTES_TOPIC])
    ]

    assert found == [{"web", "__heartbeats"}, {NOTES_TOPIC}]
