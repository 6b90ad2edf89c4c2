"""Reader: the records that Kafka and `protocol` find in the same files, whole and in parts."""

from __future__ import annotations

import gzip
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from kafka.record.memory_records import MemoryRecords

from protocol.compression import Codec
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import TimestampType
from tests.support import kafka_logs, old_kafka_logs
from tests.support.segment_logs import write_partition
from tidelog.segments.columns import COLUMNS, HEADERS
from tidelog.segments.errors import DataLossError, OptionError, SegmentError
from tidelog.segments.location import locate
from tidelog.segments.log_files import list_partitions
from tidelog.segments.plan import bounds, plan
from tidelog.segments.reader import ReadOptions, read, read_split, read_table, reader, schema

ALL = (*COLUMNS, HEADERS)
NOON_MS = int(datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp() * 1000)
TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


def milliseconds(table: pa.Table) -> list[int]:
    return [value // 1000 for value in table["timestamp"].cast(pa.int64()).to_pylist()]


def log_of(counts: list[int], codec: Codec = Codec.NONE) -> list[bytes]:
    """Return batches of so many records, one a second."""
    batches, offset = [], 0
    for count in counts:
        numbers = range(offset, offset + count)
        rows = [(n, NOON_MS + 1000 * n, b"k%d" % n, b"v" * (n % 50)) for n in numbers]
        batches.append(build_batch(rows, base_offset=offset, codec=codec))
        offset += count
    return batches


@pytest.mark.parametrize("partition", kafka_logs.PARTITIONS)
def test_given_kafkas_log_when_read_then_its_records_are_those_that_kafka_served(partition):
    table = read_table(kafka_logs.DIRECTORY / partition, columns=ALL)

    found = list(
        zip(
            table["offset"].to_pylist(),
            milliseconds(table),
            table["key"].to_pylist(),
            table["value"].to_pylist(),
            [
                tuple((each["key"], each["value"]) for each in row)
                for row in table[HEADERS].to_pylist()
            ],
            strict=True,
        )
    )
    assert found == [tuple(record) for record in kafka_logs.served(partition)]


@pytest.mark.parametrize("partition", old_kafka_logs.PARTITIONS)
def test_given_old_formats_when_read_then_their_records_are_those_that_kafka_served(
    tmp_path, partition
):
    (tmp_path / partition).mkdir()
    for path in (old_kafka_logs.DIRECTORY / partition).iterdir():
        target = tmp_path / partition / path.name.removesuffix(".gz")
        target.write_bytes(gzip.decompress(path.read_bytes()))

    table = read_table(tmp_path, chunk_bytes=700)

    columns = [table[name].to_pylist() for name in ("offset", "key", "value")]
    columns.insert(1, milliseconds(table))
    assert list(zip(*columns, strict=True)) == list(map(tuple, old_kafka_logs.served(partition)))
    assert table["timestampType"].to_pylist() == [
        TYPES[name] for name in old_kafka_logs.served_timestamp_types(partition)
    ]


@pytest.mark.parametrize("codec", Codec)
def test_given_any_codec_when_read_then_kafka_python_reads_the_same(tmp_path, codec):
    batches = log_of([5, 1, 40], codec)
    write_partition(tmp_path / "logs-3", [batches])

    table = read_table(tmp_path)

    records = MemoryRecords(b"".join(batches))
    expected = []
    while (batch := records.next_batch()) is not None:
        expected += [(each.offset, each.timestamp, each.key, each.value) for each in batch]
    columns = [table[name].to_pylist() for name in ("offset", "key", "value")]
    columns.insert(1, milliseconds(table))
    assert list(zip(*columns, strict=True)) == expected
    assert set(table["topic"].to_pylist()) == {"logs"}
    assert set(table["partition"].to_pylist()) == {3}


def test_given_the_brokers_time_when_read_then_records_have_it(tmp_path):
    batch = build_batch([(0, 5, b"k", b"v")], timestamp_type=TimestampType.LOG_APPEND_TIME)
    write_partition(tmp_path / "logs-0", [[batch]])

    (row,) = read_table(tmp_path, columns=("timestampType", "timestamp")).to_pylist()

    assert list(row) == ["timestampType", "timestamp"]
    assert row["timestampType"] == 1


@pytest.mark.parametrize("chunk_bytes", [1, 100, 1000, 1 << 20])
def test_given_chunks_of_any_size_when_read_then_the_same(tmp_path, chunk_bytes):
    write_partition(tmp_path / "logs-0", [log_of([3, 50, 1, 9])])

    offsets = read_table(tmp_path, columns=["offset"], chunk_bytes=chunk_bytes)["offset"]

    assert offsets.to_pylist() == list(range(63))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_given_offsets_and_times_when_read_then_only_what_is_within_both(tmp_path, codec):
    write_partition(tmp_path / "logs-0", [log_of([10] * 10, codec)])
    noon = datetime.fromtimestamp(NOON_MS / 1000, UTC)

    table = read_table(
        tmp_path,
        start_offset=15,
        end_offset=60,
        start_timestamp=noon + timedelta(seconds=23),
        end_timestamp=NOON_MS + 48_000,
        columns=("offset", "key"),
    )

    assert table["offset"].to_pylist() == list(range(23, 48))
    assert table["key"].to_pylist() == [b"k%d" % n for n in range(23, 48)]


def test_given_topics_and_partitions_when_read_then_only_those_in_order(tmp_path):
    for name in ("b-1", "a-0", "b-0", "b-10"):
        write_partition(tmp_path / name, [log_of([2])])

    table = read_table(tmp_path, topics=["b"], partitions=[10, 1])

    found = list(zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True))
    assert found == [("b", 1)] * 2 + [("b", 10)] * 2


def test_given_a_file_system_of_fsspec_when_read_then_the_same(tmp_path):
    batches = log_of([30, 30])
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/logs/logs-0/00000000000000000000.log", b"".join(batches))
    try:
        table = read_table("/logs", filesystem=memory, chunk_bytes=500)
        by_url = read_table("memory://logs")
    finally:
        memory.rm("/logs", recursive=True)

    assert table["offset"].to_pylist() == list(range(60))
    assert by_url.equals(table)


def test_given_a_torn_batch_at_the_end_when_read_then_the_log_ends_before_it(tmp_path):
    batches = log_of([5, 5, 5])
    write_partition(tmp_path / "logs-0", [[*batches[:2], batches[2][:-1]]])

    assert read_table(tmp_path)["offset"].to_pylist() == list(range(10))


def test_given_a_live_log_when_read_then_it_ends_at_the_high_watermark(tmp_path):
    write_partition(tmp_path / "logs-0", [log_of([5, 5, 5])])
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nlogs 0 7\n")

    assert read_table(tmp_path)["offset"].to_pylist() == list(range(7))


def test_given_a_segment_that_retention_deletes_when_it_is_read_then_offsets_are_told(tmp_path):
    write_partition(tmp_path / "logs-0", [log_of([5, 5])])
    location = locate(tmp_path)
    (files,) = list_partitions(location)
    (split,) = plan(location, files, 3, 8)
    Path(split.path).unlink()

    with pytest.raises(DataLossError, match=r"00\.log is gone.*offsets 3 to 7"):
        list(read_split(location, split, ReadOptions()))


def test_given_a_segment_deleted_while_it_is_read_then_reading_goes_on(tmp_path):
    write_partition(tmp_path / "logs-0", [log_of([5, 5, 5])])
    batches = read(tmp_path, chunk_bytes=200)
    found = next(batches).num_rows
    next((tmp_path / "logs-0").glob("*.log")).unlink()

    assert found + sum(each.num_rows for each in batches) == 15


def test_given_a_segment_that_was_cleaned_since_when_its_split_is_read_then_nothing_is_missed(
    tmp_path,
):
    batches = log_of([10] * 20)
    write_partition(tmp_path / "logs-0", [batches])
    location = locate(tmp_path)
    (files,) = list_partitions(location)
    splits = plan(location, files, *bounds(location, files), split_bytes=1000)
    assert len(splits) > 3
    write_partition(tmp_path / "logs-0", [batches[::3]])

    found = [
        offset
        for split in splits
        for rows in read_split(location, split, ReadOptions(columns=("offset",)))
        for offset in rows["offset"].to_pylist()
    ]

    assert found == [10 * n + k for n in range(0, 20, 3) for k in range(10)]


@pytest.mark.parametrize("step", [2, 3, 10, 50])
def test_given_batches_of_one_size_that_were_cleaned_since_when_read_then_nothing_is_missed(
    tmp_path, step
):
    batches = [build_batch([(n, NOON_MS, b"k", b"v")], base_offset=n) for n in range(100)]
    write_partition(tmp_path / "logs-0", [batches])
    location = locate(tmp_path)
    (files,) = list_partitions(location)
    splits = plan(location, files, 0, 100, split_bytes=10 * len(batches[0]))
    assert len(splits) > 5
    more = [build_batch([(n, NOON_MS, b"k", b"v")], base_offset=n) for n in range(100, 300)]
    # Others begin where they began; of another segment, too, that is in the same file now.
    write_partition(tmp_path / "logs-0", [[*batches[::step], *(more if step == 3 else ())]])

    found = [
        offset
        for split in splits
        for rows in read_split(location, split, ReadOptions(columns=("offset",)))
        for offset in rows["offset"].to_pylist()
    ]

    assert found == list(range(0, 100, step))


def test_given_a_reader_when_asked_then_it_streams_with_the_schema_of_its_options(tmp_path):
    write_partition(tmp_path / "logs-0", [log_of([5])])

    stream = reader(tmp_path, columns=["offset", HEADERS], on_corrupt="tag")

    assert stream.schema == schema(ReadOptions(columns=("offset", HEADERS), on_corrupt="tag"))
    assert stream.read_all().to_pylist()[0] == {"offset": 0, HEADERS: [], "corrupt": None}


def test_given_options_when_pickled_then_they_are_the_same():
    options = ReadOptions(columns=("offset",), on_corrupt="skip")

    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"on_corrupt": "ignore"}, "fail, skip or tag"),
        ({"isolation": "serializable"}, "read_uncommitted or read_committed"),
        ({"columns": ["ofset"]}, "there are key, value"),
        ({"chunk_bytes": 0}, "1 at least"),
        ({"colums": ["offset"]}, "there is no option 'colums'; there are columns"),
        ({"start_timestamp": datetime(2026, 1, 1)}, "start_timestamp has no time zone"),
    ],
)
def test_given_a_wrong_option_when_read_then_the_error_says_what_is_allowed(
    tmp_path, options, text
):
    write_partition(tmp_path / "logs-0", [log_of([1])])

    with pytest.raises(OptionError, match=text):
        read_table(tmp_path, **options)


def test_given_nothing_there_when_read_then_the_error_says_so_at_once(tmp_path):
    with pytest.raises(SegmentError, match="is not there"):
        read(tmp_path / "nowhere")


def test_given_times_between_milliseconds_when_read_then_records_from_the_next_one_on(tmp_path):
    write_partition(tmp_path / "logs-0", [log_of([5])])
    second = datetime.fromtimestamp(NOON_MS / 1000, UTC) + timedelta(seconds=1)
    instant = timedelta(microseconds=1)

    def offsets(**times) -> list[int]:
        return read_table(tmp_path, **times)["offset"].to_pylist()

    assert offsets(start_timestamp=second) == [1, 2, 3, 4]
    assert offsets(start_timestamp=second + instant) == [2, 3, 4]
    assert offsets(end_timestamp=second) == [0]
    assert offsets(end_timestamp=second + instant) == [0, 1]


def test_given_a_file_that_is_not_smaller_in_its_place_when_read_then_it_is_not_called_damaged(
    tmp_path,
):
    batches = [build_batch([(n, NOON_MS, b"k", b"v")], base_offset=n) for n in range(10)]
    large = build_batch([(10, NOON_MS, b"k", bytes(500))], base_offset=10)
    directory = write_partition(tmp_path / "logs-0", [batches], batches_per_entry=1)
    location = locate(tmp_path)
    (files,) = list_partitions(location)
    splits = plan(location, files, 0, 10, split_bytes=5 * len(batches[0]))
    assert [split.end_offset for split in splits] == [5, 10]
    (directory / f"{0:020}.log").write_bytes(b"".join([*batches[:3], *batches[6:], large]))

    found = [
        rows["offset"].to_pylist()
        for split in splits
        for rows in read_split(location, split, ReadOptions(columns=("offset",)))
    ]

    assert found == [[0, 1, 2], [6, 7, 8, 9]]
