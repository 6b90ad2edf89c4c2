"""`tidelog_batches`: a row for each batch, and one for each damaged stretch."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from protocol.compression import Codec
from tests.support.spark_logs import EPOCH_MS, some_records, write_partition


def load(spark, root, schema=None, **options):
    reader = spark.read.format("tidelog_batches").options(**options)
    return (reader if schema is None else reader.schema(schema)).load(str(root))


@pytest.fixture
def logs(tmp_path):
    """60 records in batches of 10, of which that of offsets 20 to 29 is damaged; 10 more beside."""
    [path] = write_partition(tmp_path, "web", 0, some_records(60), codec=Codec.ZSTD)
    data = bytearray(path.read_bytes())
    size_bytes = 12 + int.from_bytes(data[8:12], "big")
    position = 0
    for _ in range(2):
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    data[position + 70] ^= 1
    path.write_bytes(data)
    write_partition(tmp_path, "web", 1, some_records(10), producer_id=7, base_sequence=3)
    return tmp_path, path, size_bytes, position


def test_given_a_directory_when_read_then_a_row_for_each_batch_and_damage_is_a_row(spark, logs):
    root, path, size_bytes, position = logs

    frame = load(spark, root)
    rows = frame.orderBy("partition", "position").collect()

    assert [row.baseOffset for row in rows] == [0, 10, 20, 30, 40, 50, 0]
    first, wound, other = rows[0], rows[2], rows[6]
    assert (first.topic, first.file, first.sizeBytes) == ("web", str(path), size_bytes)
    assert (first.lastOffset, first.recordCount, first.codec, first.crcOk) == (9, 10, "zstd", True)
    assert first.maxTimestamp.timestamp() * 1_000 == EPOCH_MS + 9_000
    assert (other.producerId, other.baseSequence, other.codec) == (7, 3, "none")
    assert wound.position == position
    assert (wound.crcOk, first.error) == (False, None)
    assert "CRC" in wound.error


def test_given_fewer_columns_and_options_when_read_then_only_these(spark, logs):
    root, *_ = logs

    rows = load(spark, root, "lastOffset bigint, topic string, crcOk boolean",
                assign='{"web":[1]}', checkCrc="false").collect()  # fmt: skip

    assert [tuple(row) for row in rows] == [(9, "web", None)]
    with pytest.raises(PySparkException, match="there is no option 'minpartitions'"):
        load(spark, root, minPartitions="3")
    with pytest.raises(PySparkException, match="column 'recordCount' is of type int, not bigint"):
        load(spark, root, "recordCount bigint").collect()
