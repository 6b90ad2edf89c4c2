"""SimpleSetWriter: batches as entries, by the short way and by the long one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import BatchCorruptError, UnsupportedForMessageFormatError
from protocol.record_batch import Record, iterate_records, open_values
from protocol.record_batch_builder import build_batch, build_value_batch
from protocol.simple_message_set import encode_entries
from protocol.simple_set_writer import SimpleSetWriter
from tests.support.records import with_records

BASE_OFFSET = 1_000
ALL = 1 << 30

USUAL = st.tuples(st.none(), st.integers(60, 300), st.integers(0, 63), st.just(()), st.just(0))
ODD = st.tuples(
    st.sampled_from([None, b"", b"key"]),
    st.sampled_from([None, 0, 1, 54, 55, 56, 57, 63, 64, 8_170, 8_180, 8_190, 8_200, 20_000]),
    st.sampled_from([-1, 0, 63, 64, 9_000]),
    st.sampled_from([(), (("h", b"v"),)]),
    st.sampled_from([0, 0, 1, 70, 8_200]),
)
SHAPES = st.lists(st.one_of(USUAL, USUAL, USUAL, ODD), min_size=1, max_size=200)


def batch_of(shapes) -> bytes:
    """A batch of such keys, value sizes, timestamp deltas, headers, and gaps before."""
    records, offset = [], BASE_OFFSET
    for n, (key, size, timestamp_delta, headers, gap) in enumerate(shapes):
        value = None if size is None else bytes([n % 251]) * size
        offset += gap
        records.append(Record(offset, max(timestamp_delta, 0) + 5, key, value, headers))
        offset += 1
    return build_batch(records, base_offset=BASE_OFFSET)


def expected(batch: bytes, message_format: int, from_offset: int = 0) -> bytes:
    records = [record for record in iterate_records(batch) if record.offset >= from_offset]
    offsets = [record.offset for record in records]
    return encode_entries(offsets, [record.value for record in records], message_format).data


@settings(max_examples=150)
@given(
    shapes=SHAPES,
    message_format=st.sampled_from([0, 1]),
    records_max=st.integers(1, 100),
    span_bytes=st.integers(1, 20_000),
)
def test_given_records_of_any_shape_when_written_then_as_if_read_one_by_one(
    shapes, message_format, records_max, span_bytes
):
    batch = batch_of(shapes)
    cursor, writer = open_values(batch), SimpleSetWriter(message_format, ALL, min_one=False)

    while not cursor.is_done:
        before = writer.message_count
        writer.add(cursor, records_max, span_bytes)
        assert 0 < writer.message_count - before <= records_max

    assert b"".join(writer.parts) == expected(batch, message_format)
    assert writer.size_bytes == len(b"".join(writer.parts))
    assert writer.message_count == len(shapes)
    assert cursor.next_offset == BASE_OFFSET + sum(1 + shape[4] for shape in shapes)


@given(shapes=SHAPES, bytes_max=st.integers(0, 3_000), min_one=st.booleans())
def test_given_a_bound_when_written_then_the_messages_that_fit_and_the_place_of_the_next(
    shapes, bytes_max, min_one
):
    batch = batch_of(shapes)
    records = list(iterate_records(batch))
    cursor, writer = open_values(batch), SimpleSetWriter(0, bytes_max, min_one=min_one)

    while not (cursor.is_done or writer.is_full):
        writer.add(cursor, 50, 1_000)

    fitting, room = 0, bytes_max
    for record in records:
        room -= 17 + len(record.value or b"")
        if room < 0 and (fitting or not min_one):
            break
        fitting += 1
    assert writer.message_count == fitting
    assert writer.is_full == (fitting < len(records))
    if writer.is_full:
        assert cursor.take() == records[fitting].value


@given(shapes=SHAPES, index=st.integers(0, 199))
def test_given_an_offset_when_skipped_to_then_exactly_what_follows(shapes, index):
    batch = batch_of(shapes)
    offset = list(iterate_records(batch))[min(index, len(shapes) - 1)].offset
    cursor, writer = open_values(batch), SimpleSetWriter(1, ALL, min_one=True)

    while cursor.skip_to(offset, 7):
        pass
    writer.add(cursor, ALL, ALL)

    assert b"".join(writer.parts) == expected(batch, 1, offset)


@pytest.mark.parametrize("count", [60, 64, 65, 8_191, 8_192, 8_193, 9_000])
def test_given_offsets_at_the_edges_of_their_varints_when_written_then_right(count):
    batch = bytes(build_value_batch([b"v" * 100] * count, 77))
    cursor, writer = open_values(batch), SimpleSetWriter(0, ALL, min_one=True)

    writer.add(cursor, ALL, ALL)

    assert b"".join(writer.parts) == expected(batch, 0)


USUAL_RECORD = bytes.fromhex("de01 00 00 00 01 d001") + b"v" * 104 + b"\0"
"""A length of 111, delta 0, no key, a value of 104."""


@pytest.mark.parametrize(
    ("position", "byte"),
    [(0, 0xDF), (0, 0xE0), (4, 0x02), (4, 0x80), (6, 0xD1), (6, 0xD2), (112, 0x02)],
)
def test_given_a_usual_record_with_a_wrong_byte_when_written_then_refused(position, byte):
    record = bytearray(USUAL_RECORD)
    record[position] = byte
    cursor = open_values(with_records(bytes(record), 1))
    writer = SimpleSetWriter(0, ALL, min_one=True)

    with pytest.raises(BatchCorruptError):
        writer.add(cursor, ALL, ALL)

    assert not writer.parts


def test_given_a_damaged_record_when_written_then_those_before_it_stand():
    good = bytes(build_value_batch([b"v" * 100] * 3, 77))[61:]
    cursor = open_values(with_records(good + b"\x04\0", 4))
    writer = SimpleSetWriter(0, ALL, min_one=True)

    with pytest.raises(BatchCorruptError):
        writer.add(cursor, ALL, ALL)

    assert (writer.message_count, cursor.next_offset) == (3, 3)


def test_given_bytes_behind_the_last_record_when_written_then_refused():
    good = bytes(build_value_batch([b"v" * 100] * 3, 77))[61:]
    cursor = open_values(with_records(good + b"\0", 3))

    with pytest.raises(BatchCorruptError, match="bytes follow"):
        SimpleSetWriter(0, ALL, min_one=True).add(cursor, ALL, ALL)


def test_given_another_format_when_made_then_unsupported():
    with pytest.raises(UnsupportedForMessageFormatError):
        SimpleSetWriter(2, ALL, min_one=True)
