"""The decode kernels: they give what `protocol` gives record by record, and refuse what it does."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.checksum import crc32c
from protocol.compression import Codec
from protocol.errors import TidelogError
from protocol.record import Record
from protocol.record_batch import iterate_records
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import ATTRIBUTES_POSITION, CRC, CRC_POSITION, HEADER_BYTES
from tidelog.segments import kernel, kernel_numba, kernel_numpy
from tidelog.segments.batch_table import walk
from tidelog.segments.columns import HEADERS, to_record_batch
from tidelog.segments.inflate import inflate
from tidelog.segments.record_spans import record_spans as spans

KERNELS = {
    "numba": (kernel_numba, None),
    "numpy, side by side": (kernel_numpy, 1),
    "numpy, one by one": (kernel_numpy, 1_000_000),
}


@pytest.fixture(params=KERNELS)
def any_kernel(request, monkeypatch):
    module, lanes_min = KERNELS[request.param]
    monkeypatch.setattr(kernel, "_kernel", lambda: module)
    if lanes_min is not None:
        monkeypatch.setattr(kernel_numpy, "LANES_MIN", lanes_min)
    return module


def decoded(data: bytes) -> list[Record] | None:
    """Return all records by the kernel; None if something is unsound."""
    walked = walk(data)
    inflated = inflate(data, walked.table)
    if inflated.fault or walked.end_position != len(data):
        return None
    spans, bad = kernel.decode(inflated, walked.table)
    if bad is not None:
        return None
    headers, bad = kernel.decode_headers(inflated, spans)
    if bad is not None:
        return None
    rows = to_record_batch(
        spans, walked.table, inflated.buffer, headers,
        topic="logs", partition=3, columns=["key", "value", HEADERS],
    )  # fmt: skip
    rows.validate(full=True)
    return [
        Record(
            offset,
            timestamp,
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row[HEADERS]),
        )
        for row, offset, timestamp in zip(
            rows.to_pylist(), spans.offset.tolist(), spans.timestamp.tolist(), strict=True
        )
    ]


def expected(data: bytes) -> list[Record] | None:
    """Return all records one by one; None if something is unsound."""
    found: list[Record] = []
    position = 0
    try:
        while position < len(data):
            found += map(as_text, iterate_records(data, position))
            position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    except TidelogError:
        return None
    return found


def as_text(record: Record) -> Record:
    """Return it with header names as Arrow can hold them: no bytes that are not UTF-8."""
    named = [
        (name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), value)
        for name, value in record.headers
    ]
    return record._replace(headers=tuple(named))


texts = st.text(max_size=5)
values = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(texts, st.none() | st.binary(max_size=9)), max_size=3).map(tuple)
rows = st.tuples(st.integers(1, 300), st.integers(-(10**12), 10**12), values, values, headers)
batches = st.lists(st.lists(rows, min_size=1, max_size=6), min_size=1, max_size=5)
codecs = st.sampled_from([Codec.NONE, Codec.NONE, Codec.ZSTD, Codec.GZIP, Codec.LZ4, Codec.SNAPPY])


def log_of(made: list[list[tuple]], codec: Codec) -> bytes:
    offset, data = 0, b""
    for each in made:
        records = []
        base = offset
        for gap, time, key, value, record_headers in each:
            offset += gap
            records.append((offset, 10**13 + time, key, value, record_headers))
        data += build_batch(records, base_offset=base, codec=codec)
        offset += 1
    return data


@pytest.mark.usefixtures("any_kernel")
@settings(max_examples=40, deadline=None)
@given(made=batches, codec=codecs)
def test_given_any_records_when_decoded_then_they_are_those_that_were_written(made, codec):
    data = log_of(made, codec)

    assert decoded(data) == expected(data)


@pytest.mark.usefixtures("any_kernel")
@settings(max_examples=100, deadline=None)
@given(made=batches, place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_given_a_changed_byte_when_decoded_then_it_is_refused_where_protocol_refuses(
    made, place, byte
):
    """Records that are wrong behind a CRC that is right: only the decoding can see it."""
    data = bytearray(log_of(made[:1], Codec.NONE))
    position = HEADER_BYTES + int(place * (len(data) - HEADER_BYTES))
    data[position] = byte
    CRC.pack_into(data, CRC_POSITION, crc32c(memoryview(data)[ATTRIBUTES_POSITION:]))

    try:
        wanted = expected(bytes(data))
    except OverflowError:
        wanted = None

    assert decoded(bytes(data)) == wanted


@pytest.mark.usefixtures("any_kernel")
def test_given_an_unsound_batch_among_others_when_decoded_then_its_row_and_those_before_are_told():
    good = [build_batch([(n, 7, b"k", b"v")], base_offset=n) for n in range(4)]
    bad = bytearray(good[2])
    bad[HEADER_BYTES] = 126  # a length beyond the batch
    data = good[0] + good[1] + bytes(bad) + good[3]
    walked = walk(data)

    spans, row = kernel.decode(inflate(data, walked.table), walked.table)

    assert row == 2
    assert spans.offset.tolist() == [0, 1]
    assert spans.batch.tolist() == [0, 1]


def test_given_many_batches_of_unlike_size_when_decoded_then_all_kernels_agree(monkeypatch):
    generator = random.Random(5)
    made = [
        [
            (1, generator.randrange(9), generator.randbytes(3), generator.randbytes(9), ())
            for _ in range(generator.randrange(1, 40))
        ]
        for _ in range(100)
    ]
    data = log_of(made, Codec.NONE)
    results = []
    for module, lanes_min in ((kernel_numba, 48), (kernel_numpy, 48), (kernel_numpy, 7)):
        monkeypatch.setattr(kernel, "_kernel", lambda module=module: module)
        monkeypatch.setattr(kernel_numpy, "LANES_MIN", lanes_min)
        walked = walk(data)
        spans, bad = kernel.decode(inflate(data, walked.table), walked.table)
        assert bad is None
        results.append(spans)

    for one in results[1:]:
        for name, first, second in zip(one._fields, results[0], one, strict=True):
            assert np.array_equal(first, second), name


@pytest.mark.usefixtures("any_kernel")
def test_given_a_compressed_batch_that_claims_millions_when_decoded_then_no_room_is_made_for_them(
    monkeypatch,
):
    good = build_batch([(n, 7, b"k", b"v") for n in range(3)], codec=Codec.ZSTD)
    bad = bytearray(build_batch([(3, 7, b"k", b"v")], base_offset=3, codec=Codec.ZSTD))
    bad[23:27] = (2**24 - 1).to_bytes(4, "big")  # its last offset delta, and its count of records
    bad[57:61] = (2**24).to_bytes(4, "big")
    CRC.pack_into(bad, CRC_POSITION, crc32c(memoryview(bad)[ATTRIBUTES_POSITION:]))
    data = good + bytes(bad)
    walked, room = walk(data), []
    monkeypatch.setattr(kernel, "record_spans", lambda count: room.append(count) or spans(count))

    found, row = kernel.decode(inflate(data, walked.table), walked.table)

    assert (len(walked.table), row, room) == (2, 1, [3])
    assert found.offset.tolist() == [0, 1, 2]


@pytest.mark.usefixtures("any_kernel")
@pytest.mark.parametrize("delta", [0, 1, 2, 3])
def test_given_offsets_in_a_batch_when_decoded_then_they_have_to_go_up_to_its_last(delta):
    data = bytearray(build_batch([(0, 7, b"k", b"v"), (2, 7, b"k", b"v")]))
    second = HEADER_BYTES + 1 + (data[HEADER_BYTES] >> 1)
    data[second + 3] = delta << 1
    CRC.pack_into(data, CRC_POSITION, crc32c(memoryview(data)[ATTRIBUTES_POSITION:]))

    assert decoded(bytes(data)) == expected(bytes(data))
    assert (decoded(bytes(data)) is None) == (delta in (0, 3))


@pytest.mark.usefixtures("any_kernel")
@pytest.mark.parametrize("base_timestamp", [2**63 - 8, -(2**63)])
def test_given_times_beyond_int64_when_decoded_then_they_are_refused(base_timestamp):
    data = bytearray(build_batch([(0, 7, b"k", b"v"), (2, 7, b"k", b"v")]))
    data[27:35] = base_timestamp.to_bytes(8, "big", signed=True)
    for delta in (7, 8, -1, 63):
        data[HEADER_BYTES + 2] = (delta << 1 ^ delta >> 63) & 0x7F
        CRC.pack_into(data, CRC_POSITION, crc32c(memoryview(data)[ATTRIBUTES_POSITION:]))

        found = decoded(bytes(data))

        assert found == expected(bytes(data))
        assert (found is None) == (not -(2**63) <= base_timestamp + delta < 2**63)


@pytest.mark.usefixtures("any_kernel")
def test_given_bytes_behind_the_last_field_of_a_record_when_decoded_then_it_is_unsound():
    data = bytearray(build_batch([(0, 7, b"k", b"\0\0")]))
    data[HEADER_BYTES + 6] = 1 << 1  # one byte of value, no headers, and a byte that is nothing
    walked = walk(bytes(data))

    assert kernel.decode(inflate(bytes(data), walked.table), walked.table)[1] == 0


@given(
    st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=40)), max_size=30),
    st.sampled_from((np.int32, np.int64)),
)
def test_given_spans_when_gathered_then_all_kernels_have_their_bytes_and_none_of_those_between(
    pieces, dtype
):
    data, starts, ends = b"", [], []
    for between, piece in pieces:
        data += between
        starts.append(len(data))
        data += piece or b""
        ends.append(-1 if piece is None else len(data))
    spans = (np.array(starts, dtype=dtype), np.array(ends, dtype=dtype))

    for module in (kernel_numba, kernel_numpy):
        offsets, values = module.gather(np.frombuffer(data, dtype=np.uint8), *spans)

        assert [
            bytes(values[begin:end]) for begin, end in itertools.pairwise(offsets.tolist())
        ] == [piece or b"" for _, piece in pieces]
        assert (offsets.dtype, len(values)) == (np.int32, offsets[-1])
