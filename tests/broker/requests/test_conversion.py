"""Conversion between the simple formats and record batches: what, and in which slices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.requests.conversion import (
    INLINE_DECOMPRESSION_BYTES_MAX,
    RUN_MESSAGES,
    SKIPPED_MESSAGES,
    SLICE_BYTES,
    ConvertedSet,
    SimpleSet,
    split,
    to_current_format,
    to_record_batches,
    to_simple_set,
)
from protocol.compression import Codec
from protocol.errors import (
    CorruptMessageError,
    InvalidRecordError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
)
from protocol.legacy_message_set_builder import build_entry
from protocol.record_batch import Record, check_produced_batch, iterate_batches, iterate_records
from protocol.record_batch_builder import build_batch
from protocol.simple_message_set import build_set, iterate
from tests.support.batch_log import BatchLog
from tests.support.steps import observe_steps, run_steps

NOW_MS = 1_700_000_000_000
VALUES = st.lists(st.binary(max_size=60), min_size=1, max_size=30)
FORMATS = st.sampled_from([0, 1])


def converted(
    message_set: bytes,
    message_format: int,
    *,
    message_bytes_max: int = 1 << 20,
    compression_type: str = "producer",
) -> ConvertedSet:
    return run_steps(
        to_record_batches(
            message_set,
            message_format,
            message_bytes_max=message_bytes_max,
            compression_type=compression_type,
            timestamp_ms=NOW_MS,
        )
    )


def records_in(batches: bytes | bytearray) -> list[Record]:
    return [
        record
        for position, _ in iterate_batches(batches)
        for record in iterate_records(batches, position)
    ]


def batch(first: int, values: list[bytes | None], **options: object) -> bytes:
    records = [Record(first + n, NOW_MS, None, value) for n, value in enumerate(values)]
    return build_batch(records, base_offset=first, **options)  # type: ignore[arg-type]


def control_batch(offset: int) -> bytes:
    record = Record(offset, NOW_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")
    return build_batch([record], base_offset=offset, is_control=True, producer_id=1)


def fetched(
    log: BatchLog, offset: int, message_format: int = 0, bytes_max: int = 1 << 30, **options: bool
) -> SimpleSet:
    min_one = options.get("min_one", True)
    return run_steps(to_simple_set(log.read, offset, message_format, bytes_max, min_one=min_one))


def messages(simple: SimpleSet, message_format: int = 0) -> list[tuple[int, bytes]]:
    data = b"".join(simple.parts)
    assert len(data) == simple.size_bytes
    found = [(offset, bytes(value)) for offset, value in iterate(data, message_format)]
    assert len(found) == simple.message_count
    return found


# --- in -------------------------------------------------------------------------------------------


@given(values=VALUES, message_format=FORMATS)
def test_given_a_set_when_converted_then_values_order_and_time_are_right(values, message_format):
    """R1: a set of format 0 or 1 becomes record batches without keys, at the broker's time."""
    result = converted(build_set(values, format=message_format), message_format)

    records = records_in(result.batches)
    assert [record.value for record in records] == values
    assert {(record.key, record.timestamp) for record in records} == {(None, NOW_MS)}
    assert result.message_count == len(values)


@given(values=VALUES, codec=st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]))
def test_given_a_compressed_message_when_stored_as_producer_then_the_codec_stays(values, codec):
    result = converted(build_set(values, format=1, codec=codec), 1)

    assert [record.value for record in records_in(result.batches)] == values
    assert {header.codec for _, header in iterate_batches(result.batches)} == {codec}


@pytest.mark.parametrize(
    ("compression_type", "codec"), [("uncompressed", Codec.NONE), ("zstd", Codec.ZSTD)]
)
def test_given_a_topics_codec_when_converted_then_it_wins(compression_type, codec):
    sent = build_set([b"a" * 500] * 5, format=1, codec=Codec.GZIP)

    result = converted(sent, 1, compression_type=compression_type)

    assert {header.codec for _, header in iterate_batches(result.batches)} == {codec}


@given(
    sizes=st.lists(st.integers(0, 700), min_size=1, max_size=40),
    message_bytes_max=st.integers(800, 3_000),
)
def test_given_a_bound_when_converted_then_every_batch_is_within_it(sizes, message_bytes_max):
    values = [bytes(size) for size in sizes]

    result = converted(build_set(values, format=1), 1, message_bytes_max=message_bytes_max)

    for position, header in iterate_batches(result.batches):
        check_produced_batch(result.batches, position)
        assert header.size_bytes <= message_bytes_max
    assert [record.value for record in records_in(result.batches)] == values


def test_given_a_message_over_the_bound_when_converted_then_it_is_refused():
    sent = build_set([bytes(2_000)], format=0)

    with pytest.raises(MessageTooLargeError):
        converted(sent, 0, message_bytes_max=1_000)


def test_given_a_bad_crc_in_a_late_slice_when_converted_then_the_whole_set_is_refused():
    sent = bytearray(build_set([bytes(1_000)] * 200, format=0))
    sent[-1] ^= 1

    with pytest.raises(CorruptMessageError):
        converted(bytes(sent), 0)


def test_given_a_cut_tail_when_converted_then_what_is_whole_is_kept():
    """R28: an invalid tail is trimmed."""
    sent = build_set([b"one", b"two", b"three"], format=0)[:-2]

    result = converted(sent, 0)

    assert [record.value for record in records_in(result.batches)] == [b"one", b"two"]


@pytest.mark.parametrize("sent", [b"", build_set([b"cut"], format=0)[:-1]])
def test_given_no_whole_message_when_converted_then_it_is_no_record(sent):
    with pytest.raises(InvalidRecordError):
        converted(sent, 0)


def test_given_a_large_set_when_converted_then_each_turn_does_one_slice():
    sent = build_set([bytes(200)] * 5_000, format=0)

    ran = observe_steps(
        to_record_batches(
            sent,
            0,
            message_bytes_max=1 << 20,
            compression_type="producer",
            timestamp_ms=NOW_MS,
        )
    )

    assert ran.steps >= len(sent) // SLICE_BYTES
    assert not ran.jobs


def test_given_tiny_messages_when_converted_then_a_slice_of_them_takes_two_turns():
    sent = build_set([b""] * 5_000, format=0)

    ran = observe_steps(
        to_record_batches(
            sent, 0, message_bytes_max=1 << 20, compression_type="producer", timestamp_ms=NOW_MS
        )
    )

    assert ran.steps >= 2 * (len(sent) // SLICE_BYTES)
    assert ran.result.message_count == 5_000  # type: ignore[attr-defined]


def test_given_large_compressed_bytes_when_converted_then_a_job_decompresses_them():
    incompressible = [bytes((n * 31 + k * k) % 251 for k in range(1_000)) for n in range(60)]
    sent = build_set(incompressible, format=1, codec=Codec.SNAPPY)
    assert len(sent) > INLINE_DECOMPRESSION_BYTES_MAX

    ran = observe_steps(
        to_record_batches(
            sent, 1, message_bytes_max=1 << 20, compression_type="producer", timestamp_ms=NOW_MS
        )
    )

    assert len(ran.jobs) == 1


@given(sizes=st.lists(st.integers(0, 100), min_size=1, max_size=50), bytes_max=st.integers(1, 400))
def test_given_values_when_split_then_nothing_is_lost_and_runs_fit(sizes, bytes_max):
    values = [bytes(size) for size in sizes]

    runs = split(values, bytes_max)

    assert [value for run in runs for value in run] == values
    for run in runs:
        assert len(run) == 1 or sum(len(value) + 17 for value in run) <= bytes_max


# --- out ------------------------------------------------------------------------------------------


@given(
    lists=st.lists(VALUES, min_size=1, max_size=6),
    data=st.data(),
    codec=st.sampled_from(Codec),
    message_format=FORMATS,
)
def test_given_any_offset_when_fetched_then_exactly_the_values_from_it_come(
    lists, data, codec, message_format
):
    batches, values = [], []
    for run in lists:
        batches.append(batch(len(values), list(run), codec=codec))
        values += run
    offset = data.draw(st.integers(0, len(values)))

    result = fetched(BatchLog(batches), offset, message_format)

    assert messages(result, message_format) == list(enumerate(values))[offset:]
    assert result.next_offset == len(values)


@given(values=VALUES, bytes_max=st.integers(1, 1_000))
def test_given_max_bytes_when_fetched_then_it_cuts_between_messages(values, bytes_max):
    result = fetched(BatchLog([batch(0, list(values))]), 0, 0, bytes_max)

    found = messages(result)
    assert found == list(enumerate(values))[: len(found)]
    fits = [sum(17 + len(v) for v in values[: n + 1]) <= bytes_max for n in range(len(values))]
    assert len(found) == max(1, sum(fits))


def test_given_a_first_message_too_large_when_another_partition_came_first_then_none_comes():
    result = fetched(BatchLog([batch(0, [bytes(100)])]), 0, 0, 50, min_one=False)

    assert (messages(result), result.next_offset) == ([], 0)


def test_given_null_values_and_control_records_when_fetched_then_empty_and_left_out():
    log = BatchLog([batch(0, [b"a", None]), control_batch(2), batch(3, [b"b"])])

    result = fetched(log, 0)

    assert messages(result) == [(0, b"a"), (1, b""), (3, b"b")]


def test_given_markers_alone_when_fetched_then_no_message_but_the_offset_moves_on():
    log = BatchLog([batch(0, [b"a"]), control_batch(1), control_batch(2)])

    result = fetched(log, 1)

    assert (messages(result), result.next_offset) == ([], 3)


def test_given_a_damaged_batch_when_fetched_then_good_ones_before_it_still_come():
    damaged = bytearray(batch(1, [b"b"]))
    damaged[-1] ^= 1
    log = BatchLog([batch(0, [b"a"]), bytes(damaged)])

    result = fetched(log, 0)

    assert messages(result) == [(0, b"a")]
    with pytest.raises(CorruptMessageError):
        fetched(log, 1)


def test_given_an_offset_outside_when_fetched_then_that_is_the_error():
    with pytest.raises(OffsetOutOfRangeError):
        fetched(BatchLog([batch(0, [b"a"])]), 2)


def test_given_cold_slices_when_fetched_then_they_are_read_ahead_in_jobs():
    log = BatchLog([batch(n, [bytes(600_000)]) for n in range(4)], cold=True)

    ran = observe_steps(to_simple_set(log.read, 0, 0, 1 << 30, min_one=True))

    assert len(messages(ran.result)) == 4  # type: ignore[arg-type]
    assert len(ran.jobs) == sum(piece.read_aheads for piece in log.slices) == 4


def test_given_a_large_compressed_batch_when_fetched_then_a_job_decompresses_it():
    incompressible = [bytes((n * 31 + k * k) % 251 for k in range(1_000)) for n in range(60)]
    log = BatchLog([batch(0, list(incompressible), codec=Codec.SNAPPY)])

    ran = observe_steps(to_simple_set(log.read, 0, 1, 1 << 30, min_one=True))

    assert len(ran.jobs) == 1
    assert ran.result.message_count == 60  # type: ignore[attr-defined]


def test_given_few_bytes_that_grow_beyond_measure_when_fetched_then_a_job_decompresses_them():
    log = BatchLog([batch(0, [bytes(2_000_000)], codec=Codec.ZSTD), batch(1, [b"small"])])

    ran = observe_steps(to_simple_set(log.read, 0, 1, 1 << 30, min_one=True))

    assert len(ran.jobs) == 1
    assert ran.result.message_count == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("value_bytes", [0, 200, 5_000])
def test_given_a_large_answer_when_fetched_then_it_takes_many_turns(value_bytes):
    count = 400_000 // max(value_bytes, 100)
    log = BatchLog([batch(0, [bytes(value_bytes)] * count)])

    ran = observe_steps(to_simple_set(log.read, 0, 0, 1 << 30, min_one=True))

    assert ran.result.message_count == count  # type: ignore[attr-defined]
    turn_bytes, turn_messages = SLICE_BYTES * 3 // 2, RUN_MESSAGES * 3 // 2
    assert ran.steps >= max(count * value_bytes // turn_bytes, count // turn_messages)


def test_given_batches_just_below_a_slice_when_fetched_then_no_turn_takes_two_of_them():
    batches = [batch(150 * n, [bytes(200)] * 150) for n in range(20)]
    log = BatchLog(batches)

    ran = observe_steps(to_simple_set(log.read, 0, 0, 1 << 30, min_one=True))

    assert ran.result.message_count == 3_000  # type: ignore[attr-defined]
    assert ran.steps >= len(batches)


def test_given_an_offset_late_in_a_long_batch_when_fetched_then_skipping_takes_turns_too():
    log = BatchLog([batch(0, [b""] * 5_000)])

    ran = observe_steps(to_simple_set(log.read, 4_999, 0, 1 << 30, min_one=True))

    assert messages(ran.result) == [(4_999, b"")]  # type: ignore[arg-type]
    assert ran.steps >= 5_000 // SKIPPED_MESSAGES


# --- old Kafka segments ---------------------------------------------------------------------------


@pytest.mark.parametrize("magic", [0, 1])
def test_given_legacy_entries_when_fetched_in_format_2_then_they_are_batches(magic):
    entries = [build_entry(n, b"k", b"v%d" % n, magic=magic, timestamp=NOW_MS) for n in range(3)]

    batches = run_steps(to_current_format(b"".join(entries), 1 << 20, min_one=True))

    found = records_in(b"".join(bytes(each) for each in batches))
    assert [(record.offset, record.key, record.value) for record in found] == [
        (0, b"k", b"v0"),
        (1, b"k", b"v1"),
        (2, b"k", b"v2"),
    ]


def test_given_legacy_entries_when_fetched_in_format_0_then_their_values_come():
    entries = [build_entry(n, b"k", b"v%d" % n, magic=0) for n in range(3)]

    result = fetched(BatchLog(entries), 1)

    assert messages(result) == [(1, b"v1"), (2, b"v2")]


def test_given_legacy_entries_that_grow_when_converted_then_the_bound_holds():
    entries = b"".join(
        build_entry(n * 2**31, None, b"", magic=0) for n in range(50)
    )  # so far apart that each needs a batch

    batches = run_steps(to_current_format(entries, 500, min_one=True))
    none = run_steps(to_current_format(entries, 10, min_one=False))

    assert 0 < sum(map(len, batches)) <= 500
    assert none == []
