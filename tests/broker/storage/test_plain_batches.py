"""Plain batches: the short way of an append is a shortcut, not another rule (R28, R29)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.storage.append_info import AppendRules, analyze_and_validate, assign_offsets
from broker.storage.log_config import CleanupPolicy, LogConfig, MessageTimestampType
from broker.storage.plain_batches import stamp_plain
from protocol.checksum import crc32c
from protocol.compression import Codec
from protocol.errors import TidelogError
from protocol.record_batch_header import HEADER
from tests.support.log_storage import NOW_MS, batch

PLAIN = LogConfig()
SMALL = LogConfig(max_message_bytes=75)
NARROW = LogConfig(message_timestamp_before_max_ms=5, message_timestamp_after_max_ms=5)
LONG_WAY = (
    LogConfig(message_timestamp_type=MessageTimestampType.LOG_APPEND_TIME),
    LogConfig(cleanup_policy=CleanupPolicy.COMPACT),
    LogConfig(validate_records=True),
)
CRC, TIMESTAMPS = 4, (7, 8)
FIELDS = st.integers(0, 12)
VALUES = st.sampled_from([-1, 0, 1, 2, 5, 8, 61, 127])


def with_field(original: memoryview, number: int, value: int) -> memoryview:
    """A batch with one header field changed, and the CRC that fits, unless that is the field."""
    changed = bytearray(original)
    fields = list(HEADER.unpack_from(changed))
    fields[number] = value + NOW_MS if number in TIMESTAMPS else value
    if number == CRC:
        fields[CRC] = max(value, 0)
    HEADER.pack_into(changed, 0, *fields)
    if number != CRC:
        fields[CRC] = crc32c(memoryview(changed)[21:])
        HEADER.pack_into(changed, 0, *fields)
    return memoryview(changed)


@given(
    number=FIELDS,
    value=VALUES,
    records=st.integers(1, 3),
    codec=st.sampled_from(Codec),
    config=st.sampled_from([PLAIN, SMALL, NARROW, *LONG_WAY]),
    cut=st.integers(0, 2),
)
def test_given_any_batch_when_taken_as_plain_then_the_long_way_says_and_stamps_the_same(
    number, value, records, codec, config, cut
):
    original = with_field(batch(*[b"v"] * records, codec=codec), number, value)
    original = original[: len(original) - cut]
    rules = AppendRules(config)
    short, long = memoryview(bytearray(original)), memoryview(bytearray(original))

    plain = stamp_plain(short, rules, NOW_MS, 7, 3, {})

    if plain is None:
        assert short == original, "nothing is changed by a look"
        return
    info = analyze_and_validate(long, rules, NOW_MS, 7)
    assign_offsets(long, info, 3)
    assert plain == (info.message_count, info.max_timestamp, None)
    assert (info.append_time_ms, info.valid_bytes) == (-1, len(short))
    assert short == long


@given(records=st.integers(1, 3), codec=st.sampled_from(Codec), config=st.sampled_from(LONG_WAY))
def test_given_a_topic_that_needs_more_than_the_header_when_appended_then_nothing_is_plain(
    records, codec, config
):
    data = batch(*[b"v"] * records, codec=codec)

    assert stamp_plain(data, AppendRules(config), NOW_MS, 0, 0, {}) is None
    assert stamp_plain(data, AppendRules(PLAIN), NOW_MS, 0, 0, {}) == (records, NOW_MS, None)


@given(position=st.integers(17, 69), bit=st.integers(0, 7))
def test_given_a_flipped_bit_when_looked_at_then_it_is_not_plain(position, bit):
    """Every bit from the CRC on is covered by it; the long way has the error."""
    data = batch(b"v")
    data[position] ^= 1 << bit

    assert stamp_plain(data, AppendRules(PLAIN), NOW_MS, 0, 0, {}) is None
    try:
        analyze_and_validate(data, AppendRules(PLAIN), NOW_MS)
    except TidelogError:
        return
    raise AssertionError("the long way took it")
