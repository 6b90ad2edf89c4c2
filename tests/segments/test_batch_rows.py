"""BatchRows: each batch of a log as a row, as `protocol` reads its header."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from protocol.compression import Codec
from protocol.record_batch import iterate_batches
from protocol.record_batch_builder import build_batch
from tests.support import kafka_logs
from tests.support.segment_logs import write_partition
from tidelog.segments.batch_rows import BATCH_ROWS, batch_rows
from tidelog.segments.location import locate
from tidelog.segments.log_files import list_partitions
from tidelog.segments.plan import bounds, plan

KAFKA = Path(__file__).resolve().parents[1] / "data"


def rows_of(directory: Path, *, split_bytes: int = 1 << 20, **options) -> list[dict]:
    location = locate(directory)
    (files,) = list_partitions(location)
    splits = plan(location, files, *bounds(location, files), split_bytes=split_bytes)
    batches = [rows for split in splits for rows in batch_rows(location, split, **options)]
    return pa.Table.from_batches(batches, BATCH_ROWS).to_pylist()


@pytest.mark.parametrize("partition", kafka_logs.PARTITIONS)
def test_given_kafkas_log_when_its_batches_are_listed_then_as_protocol_reads_their_headers(
    partition,
):
    directory = kafka_logs.DIRECTORY / partition

    found = rows_of(directory, chunk_bytes=1000)

    expected = []
    for path in sorted(directory.glob("*.log")):
        expected += [(str(path), *each) for each in iterate_batches(path.read_bytes())]
    assert len(found) == len(expected)
    for row, (path, position, header) in zip(found, expected, strict=True):
        assert (row["file"], row["position"], row["sizeBytes"]) == (
            path, position, header.size_bytes,
        )  # fmt: skip
        assert (row["baseOffset"], row["lastOffset"]) == (header.base_offset, header.last_offset)
        assert (row["recordCount"], row["magic"]) == (header.record_count, 2)
        assert row["codec"] == header.codec.name.lower()
        assert row["timestampType"] == header.timestamp_type
        assert (row["leaderEpoch"], row["producerId"]) == (header.leader_epoch, header.producer_id)
        assert (row["producerEpoch"], row["baseSequence"]) == (
            header.producer_epoch, header.base_sequence,
        )  # fmt: skip
        assert (row["isTransactional"], row["isControl"]) == (
            header.is_transactional, header.is_control,
        )  # fmt: skip
        assert (row["crcOk"], row["error"]) == (True, None)
        assert f"{row['topic']}-{row['partition']}" == partition
        if header.max_timestamp >= 0:
            assert row["maxTimestamp"].timestamp() * 1000 == pytest.approx(header.max_timestamp)


def test_given_old_entries_when_listed_then_what_is_known_of_them_without_a_look_inside():
    rows = rows_of(KAFKA / "kafka-segments" / "upgraded-1")

    found = [(row["magic"], row["codec"], row["baseOffset"], row["lastOffset"]) for row in rows]
    assert found[:5] == [
        (0, "none", 0, 0), (0, "none", 1, 1), (0, "gzip", None, 3), (0, "lz4", None, 5),
        (1, "none", 6, 6),
    ]  # fmt: skip
    assert [row["recordCount"] for row in rows[:4]] == [1, 1, None, None]
    assert rows[0]["maxTimestamp"] is None
    assert rows[4]["maxTimestamp"] == datetime(2025, 6, 15, 15, 6, 40, 243_000, tzinfo=UTC)
    assert {row["magic"] for row in rows[8:]} == {2}


def damaged(tmp_path: Path) -> tuple[Path, list[bytes]]:
    batches = [
        build_batch([(n, 9, b"k", b"v" * n)], base_offset=n, codec=Codec.NONE) for n in range(9)
    ]
    wrong = bytearray(batches[4])
    wrong[-2] ^= 1
    written = [*batches[:4], bytes(wrong), *batches[5:]]
    return write_partition(tmp_path / "logs-0", [written]), batches


def test_given_damage_when_listed_then_one_row_tells_where_and_which_offsets(tmp_path):
    directory, batches = damaged(tmp_path)

    rows = rows_of(directory)

    assert [row["baseOffset"] for row in rows] == list(range(9))
    (wound,) = [row for row in rows if row["error"] is not None]
    assert (wound["position"], wound["sizeBytes"]) == (
        sum(map(len, batches[:4])), len(batches[4]),
    )  # fmt: skip
    assert (wound["baseOffset"], wound["lastOffset"], wound["crcOk"]) == (4, 4, False)
    assert "CRC" in wound["error"]


def test_given_no_check_when_listed_then_nothing_is_said_of_crcs(tmp_path):
    rows = rows_of(damaged(tmp_path)[0], check_crc=False)

    assert {row["crcOk"] for row in rows} == {None}
    assert {row["error"] for row in rows} == {None}


def test_given_small_splits_when_listed_then_each_batch_is_there_once(tmp_path):
    directory, _ = damaged(tmp_path)

    found = [row["baseOffset"] for row in rows_of(directory, split_bytes=100)]

    assert found == list(range(9))


@pytest.mark.parametrize("kept", [slice(0, None, 2), slice(1, None, 2), slice(50, None)])
@pytest.mark.parametrize("split_bytes", [300, 1000, 5000])
def test_given_batches_of_one_size_that_were_cleaned_since_when_listed_then_each_once_and_unhurt(
    tmp_path, kept, split_bytes
):
    batches = [build_batch([(n, 9, b"k", b"v")], base_offset=n) for n in range(101)]
    directory = write_partition(tmp_path / "logs-0", [batches[:100], batches[100:]])
    location = locate(tmp_path)
    (files,) = list_partitions(location)
    splits = plan(location, files, *bounds(location, files), split_bytes=split_bytes)
    (directory / f"{0:020}.log").write_bytes(b"".join(batches[:100][kept]))

    rows = [
        row for split in splits for each in batch_rows(location, split) for row in each.to_pylist()
    ]

    assert [row["baseOffset"] for row in rows] == [*range(100)[kept], 100]
    assert {row["error"] for row in rows} == {None}


def test_given_a_batch_that_reaches_into_a_split_when_listed_then_it_is_there(tmp_path):
    batch = build_batch([(n, 9, b"k", b"v") for n in range(9)])
    write_partition(tmp_path / "logs-0", [[batch]])
    location = locate(tmp_path)
    (files,) = list_partitions(location)

    (split,) = plan(location, files, 5, 7)

    assert [
        row["baseOffset"] for each in batch_rows(location, split) for row in each.to_pylist()
    ] == [0]


def test_given_damage_before_what_is_wanted_when_listed_then_nothing_is_said_of_it(tmp_path):
    directory, _ = damaged(tmp_path)
    location = locate(directory)
    (files,) = list_partitions(location)

    found = {
        start: [
            (row["baseOffset"], row["error"] is None)
            for split in plan(location, files, start, 7)
            for rows in batch_rows(location, split)
            for row in rows.to_pylist()
        ]
        for start in (4, 5)
    }

    assert found == {4: [(4, False), (5, True), (6, True)], 5: [(5, True), (6, True)]}
