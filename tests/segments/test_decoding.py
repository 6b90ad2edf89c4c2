"""Decoding: bytes as a broker sends them, without a file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.compression import Codec
from protocol.legacy_message_set_builder import build_set
from protocol.record import Record
from protocol.record_batch_builder import build_batch
from tidelog.segments.decoding import decode_batches
from tidelog.segments.errors import DamagedError
from tidelog.segments.reader import ReadOptions

OPTIONS = ReadOptions(columns=("offset", "value"))


def decode(data: bytes, *, start: int = 0, end: int = 2**63 - 1, options=OPTIONS):
    return decode_batches(
        data, topic="logs", partition=0, options=options, start_offset=start, end_offset=end,
        where="logs-0 of localhost:9091",
    )  # fmt: skip


def batches(codec: Codec = Codec.NONE) -> list[bytes]:
    return [
        build_batch(
            [(n, 7, b"k", b"v%d" % n) for n in range(at, at + 5)], base_offset=at, codec=codec
        )
        for at in range(100, 130, 10)
    ]


@settings(max_examples=60, deadline=None)
@given(
    codec=st.sampled_from([Codec.NONE, Codec.LZ4]),
    start=st.integers(90, 130),
    length=st.integers(0, 40),
)
def test_given_fetched_batches_when_decoded_then_what_is_asked_for_and_where_to_go_on(
    codec, start, length
):
    rows, next_offset = decode(b"".join(batches(codec)), start=start, end=start + length)

    offsets = [at + n for at in (100, 110, 120) for n in range(5)]
    expected = [n for n in offsets if start <= n < start + length]
    assert ([] if rows is None else rows["offset"].to_pylist()) == expected
    read = [at for at in (100, 110, 120) if at < start + length and start + length > 0]
    if length:
        assert next_offset == max([start, *(at + 5 for at in read)])


def test_given_nothing_when_decoded_then_the_next_offset_stays():
    assert decode(b"", start=42) == (None, 42)


def test_given_control_batches_only_when_decoded_then_no_rows_and_the_next_offset_is_behind():
    data = build_batch(
        [(7, 1, b"\0\0\0\1", b"\0\0\0\0\0\0")], base_offset=7, is_control=True,
        is_transactional=True, producer_id=1, producer_epoch=0,
    )  # fmt: skip

    assert decode(data, start=7) == (None, 8)


def test_given_compressed_batches_beyond_a_buffer_when_decoded_then_one_record_batch():
    options = ReadOptions(columns=("offset",), chunk_bytes=10)

    rows, _ = decode(b"".join(batches(Codec.ZSTD)), options=options)

    assert rows is not None
    assert rows.num_rows == 15


def test_given_old_messages_when_decoded_then_as_any_others():
    data = build_set([Record(n, -1, b"k", b"v") for n in range(3)], magic=0)

    rows, next_offset = decode(data, options=ReadOptions(columns=("offset", "timestampType")))

    assert rows is not None
    assert rows.to_pylist() == [{"offset": n, "timestampType": -1} for n in range(3)]
    assert next_offset == 3


def test_given_a_damaged_batch_when_decoded_then_the_error_names_where_it_came_from():
    first, second, third = batches()
    data = first + second[:-1] + b"\xff" + third

    with pytest.raises(DamagedError, match=r"logs-0 of localhost:9091 is damaged at byte \d+"):
        decode(data)
    rows, next_offset = decode(data, options=ReadOptions(columns=("offset",), on_corrupt="skip"))
    assert rows is not None
    assert rows["offset"].to_pylist() == [*range(100, 105), *range(120, 125)]
    assert next_offset == 125
