"""Records and batches for tests: strategies, golden bytes, and what other writers build."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import cramjam
import pytest
from hypothesis import strategies as st
from kafka import codec as kafka_codec
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from protocol.checksum import crc32c
from protocol.record_batch import HEADER, BatchHeader, Record

# Three records, written by kafka-python 3.0.12 (its leader epoch is 0): key and two headers, of
# which one is null; a null key and an empty value; an empty key and a null value, 1 ms earlier.
GOLDEN = bytes.fromhex(
    "0000000000000000 00000055 00000000 02 fd64511a 0000 00000002"
    "0000018bcfe56800 0000018bcfe56805 ffffffffffffffff ffff ffffffff 00000003"
    "2a 00 00 00 06 6b6579 0a 76616c7565 04 02 68 02 01 02 6e 01"
    "0c 00 0a 02 01 00 00"
    "0c 00 01 04 00 01 00"
)
GOLDEN_RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value", (("h", b"\x01"), ("n", None))),
    Record(1, 1_700_000_000_005, None, b""),
    Record(2, 1_699_999_999_999, b"", None),
]

MAYBE_BYTES = st.none() | st.binary(max_size=100)
HEADERS = st.lists(st.tuples(st.text(max_size=8), MAYBE_BYTES), max_size=3).map(tuple)
TIMESTAMPS = st.integers(-1, 2**41) | st.integers(1_700_000_000_000, 1_700_000_000_100)


@st.composite
def record_lists(draw: st.DrawFn, *, min_size: int = 1, gaps: bool = False) -> list[Record]:
    """Records with offsets from 0; with gaps, as after cleaning."""
    records = []
    offset = 0
    for _ in range(draw(st.integers(min_size, 12))):
        offset += draw(st.integers(0, 100)) if gaps else 0
        fields = [draw(strategy) for strategy in (TIMESTAMPS, MAYBE_BYTES, MAYBE_BYTES, HEADERS)]
        records.append(Record(offset, *fields))
        offset += 1
    return records


def sealed(batch: bytes, **fields: int) -> bytearray:
    """A batch with header fields changed and the CRC made right again."""
    header = BatchHeader(*HEADER.unpack_from(batch))._replace(**fields)
    out = bytearray(HEADER.pack(*header) + batch[HEADER.size :])
    if "crc" not in fields:
        struct.pack_into(">I", out, 17, crc32c(memoryview(out)[21:]))
    return out


def with_records(payload: bytes, count: int, **fields: int) -> bytearray:
    """A batch of hand-made record bytes, its CRC right; it spans `count` offsets."""
    header = BatchHeader(
        0, 49 + len(payload), -1, 2, 0, 0, count - 1, 1000, 2000, -1, -1, -1, count
    )
    return sealed(HEADER.pack(*header) + payload, **fields)


def built_by_kafka_python(records: Sequence[Record], codec: int = 0, **options: Any) -> bytes:
    """A batch of these records, whose offsets must be 0, 1, 2, ..."""
    settings = {"is_transactional": False, "producer_id": -1, "producer_epoch": -1}
    settings |= {"base_sequence": -1, "batch_size": 1 << 30} | options
    builder = DefaultRecordBatchBuilder(2, codec, **settings)
    for offset, timestamp, key, value, headers in records:
        assert builder.append(offset, timestamp, key, value, list(headers)) is not None
    return bytes(builder.build())


def read_by_kafka_python(batch: bytes) -> Iterator[Record]:
    """The records that kafka-python finds in a batch, its CRC checked."""
    reader = DefaultRecordBatch(batch)
    assert reader.validate_crc()
    for record in reader:
        headers = tuple((name, value) for name, value in record.headers)
        yield Record(record.offset, record.timestamp, record.key, record.value, headers)


class _RawSnappy:
    """What kafka-python wants of the package python-snappy, which is cramjam underneath."""

    @staticmethod
    def compress(data: bytes) -> bytes:
        return bytes(cramjam.snappy.compress_raw(data))

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return bytes(cramjam.snappy.decompress_raw(data))


def give_snappy_to_kafka_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kafka-python read and write snappy, its framing included, without another package."""
    monkeypatch.setattr(kafka_codec, "snappy", _RawSnappy)
