"""AppendInfo: what is known of a set of record batches before it is appended (R28).

`analyze_and_validate` looks and changes nothing, so that a set with one bad batch leaves no trace;
`assign_offsets` then stamps the set in place. A produced batch is judged by its header (sizes, CRC,
counts, timestamps); records are decoded only for compacted topics and under `validate_records`.
Plain batches, which is what producers send, take a shorter way: `plain_batches`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.storage.append_origin import AppendOrigin
from broker.storage.log_config import LogConfig, MessageTimestampType
from broker.storage.producer_state import ProducerBatch
from protocol.end_transaction_marker import EndTransactionMarker, decode_marker
from protocol.errors import (
    BatchTruncatedError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    RecordListTooLargeError,
)
from protocol.identifiers import NO_PRODUCER_ID, NO_TIMESTAMP
from protocol.record_batch import (
    check_batch,
    check_produced_batch,
    iterate_records,
    stamp_log_append_time,
)
from protocol.record_batch_header import (
    CODEC_MASK,
    CONTROL_FLAG,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL_FLAG,
)

if TYPE_CHECKING:
    from protocol.record_batch_header import BatchHeader

_OFFSET_LENGTH_EPOCH: Final = struct.Struct(">qii")
_LENGTH: Final = struct.Struct(">i")
_TRANSACTIONAL_OR_CONTROL: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_POSITION: Final = 23


class AppendRules:
    """The settings of a LogConfig that an append is judged by, as plain numbers."""

    __slots__ = (
        "after_max_ms",
        "before_max_ms",
        "decodes_records",
        "log_append_time",
        "needs_keys",
        "plain_bytes_max",
        "segment_bytes",
        "size_bytes_max",
    )

    def __init__(self, config: LogConfig) -> None:
        self.size_bytes_max = config.max_message_bytes
        self.segment_bytes = config.segment_bytes
        self.before_max_ms = config.message_timestamp_before_max_ms
        self.after_max_ms = config.message_timestamp_after_max_ms
        self.log_append_time = config.message_timestamp_type is MessageTimestampType.LOG_APPEND_TIME
        self.needs_keys = config.cleanup_policy.compacts
        self.decodes_records = config.validate_records or self.needs_keys
        is_plain = not (self.decodes_records or self.log_append_time)
        self.plain_bytes_max = min(self.size_bytes_max, self.segment_bytes) if is_plain else 0


class AppendInfo(NamedTuple):
    """What was, or would be, appended. Offsets are those that the log gives the records."""

    first_offset: int
    last_offset: int
    shallow_count: int
    """Batches."""
    valid_bytes: int
    """Whole batches take up this much of the set; what follows is a cut tail."""
    codec: int
    """Codec number of the last batch."""
    max_timestamp: int
    offset_of_max_timestamp: int
    """The last offset of the first batch that has the largest timestamp."""
    monotonic: bool
    """Whether the offsets that the batches came with rise from batch to batch."""
    append_time_ms: int = -1
    """The broker's time given to all records (LogAppendTime), else -1."""
    producer_batches: tuple[ProducerBatch, ...] = ()
    """Those with a producer id."""
    is_duplicate: bool = False
    """Nothing was appended: it was before, at these offsets and this time."""

    @property
    def message_count(self) -> int:
        """Records."""
        return self.last_offset - self.first_offset + 1


def analyze_and_validate(
    batches: memoryview,
    rules: AppendRules,
    now_ms: int,
    first_offset: int = 0,
    *,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    is_verified: bool = False,
) -> AppendInfo:
    """Check every batch of a set as its sender may send it; change nothing.

    Args:
        batches: Whole record batches of format v2. The last may be cut short, if it is not the
            first: see `AppendInfo.valid_bytes` and `trim_invalid_bytes`.
        now_ms: The broker's clock, against which timestamps are held.
        first_offset: The offset that the first record is to get.
        origin: Who sends it. Sequences are not looked at here.
        is_verified: The client's transaction is known to be open.

    Raises: what `check_produced_batch` raises, BatchTruncatedError for the first batch only; and
        InvalidRecordError: no batch at all, a record that is wrong (where records are decoded), or
            a client's transactional batch that is not verified.
        InvalidTimestampError: a timestamp too far from the clock.
        MessageTooLargeError: a batch is over `max_message_bytes`.
        RecordListTooLargeError: the set is larger than a segment.
    """
    headers, valid_bytes = _checked_headers(batches, rules, now_ms, origin, is_verified=is_verified)
    if valid_bytes > rules.segment_bytes:
        raise RecordListTooLargeError(valid_bytes, rules.segment_bytes)
    next_offset = first_offset
    max_timestamp, offset_of_max_timestamp = int(NO_TIMESTAMP), first_offset
    monotonic, last_sent_offset = True, -1
    producer_batches: list[ProducerBatch] = []
    for position, header in headers:
        if header.producer_id != NO_PRODUCER_ID:
            marker = _marker(batches, position, header, origin) if header.is_control else None
            producer_batches.append(_producer_batch(header, next_offset, marker, rules, now_ms))
        if position and header.base_offset <= last_sent_offset:
            monotonic = False
        last_sent_offset = header.base_offset + header.last_offset_delta
        next_offset += header.last_offset_delta + 1
        if header.max_timestamp > max_timestamp:
            max_timestamp, offset_of_max_timestamp = header.max_timestamp, next_offset - 1
    largest, append_time_ms = (max_timestamp, offset_of_max_timestamp), -1
    if rules.log_append_time:
        append_time_ms, largest = now_ms, (now_ms, next_offset - 1)
    return AppendInfo(
        first_offset, next_offset - 1, len(headers), valid_bytes, header.attributes & CODEC_MASK,
        *largest, monotonic, append_time_ms, tuple(producer_batches),
    )  # fmt: skip


def _checked_headers(
    batches: memoryview,
    rules: AppendRules,
    now_ms: int,
    origin: AppendOrigin,
    *,
    is_verified: bool,
) -> tuple[list[tuple[int, BatchHeader]], int]:
    """Return position and header of each batch, at least one, and how many bytes they take up."""
    headers: list[tuple[int, BatchHeader]] = []
    size, position = len(batches), 0
    while position < size:
        header = _check_batch(batches, position, rules, now_ms, origin)
        if header is None:
            break
        if header.attributes & _TRANSACTIONAL_OR_CONTROL:
            _check_transactional(header, origin, is_verified=is_verified)
        headers.append((position, header))
        position += header.batch_length + LOG_OVERHEAD_BYTES
    if not headers:
        raise InvalidRecordError("the set holds no record batch")
    return headers, position


def _check_batch(
    batches: memoryview, position: int, rules: AppendRules, now_ms: int, origin: AppendOrigin
) -> BatchHeader | None:
    """Return the header of a batch that may be appended; None for the cut tail of a set."""
    is_client = origin is AppendOrigin.CLIENT
    try:
        header = (check_produced_batch if is_client else check_batch)(batches, position)
    except BatchTruncatedError:
        if position == 0:
            raise  # no batch is whole: trimming would leave nothing and say nothing
        return None
    if origin is AppendOrigin.REPLICATION:
        return header
    _check_header(header, rules, now_ms)
    if not is_client and header.record_count != header.last_offset_delta + 1:
        raise InvalidRecordError(
            f"{header.record_count} records, but last_offset_delta {header.last_offset_delta}"
        )
    if rules.decodes_records and not header.is_control:
        _check_records(batches, position, header, rules, now_ms)
    return header


def _check_transactional(header: BatchHeader, origin: AppendOrigin, *, is_verified: bool) -> None:
    """Hold a transactional or control batch against what its sender may send."""
    if origin is AppendOrigin.CLIENT and not is_verified:
        raise InvalidRecordError("transactional batches are not supported yet")
    if header.is_transactional and header.producer_id < 0:
        raise InvalidRecordError("a transactional batch without a producer id")


def _marker(
    batches: memoryview, position: int, header: BatchHeader, origin: AppendOrigin
) -> EndTransactionMarker | None:
    """Return the marker in a control batch; None if it is one of another kind, or emptied."""
    marker = decode_marker(batches, position)
    if marker is None and origin is AppendOrigin.COORDINATOR:
        raise InvalidRecordError("a control batch with a producer id, and without a marker")
    return marker


def _producer_batch(
    header: BatchHeader,
    base_offset: int,
    marker: EndTransactionMarker | None,
    rules: AppendRules,
    now_ms: int,
) -> ProducerBatch:
    """Return a batch with the times that it will have."""
    if not rules.log_append_time:
        return ProducerBatch(header, base_offset, marker, header.max_timestamp)
    if marker is not None:
        marker = marker._replace(timestamp=now_ms)
    return ProducerBatch(header, base_offset, marker, now_ms)


def _check_header(header: BatchHeader, rules: AppendRules, now_ms: int) -> None:
    """Hold a sound batch header against the topic's rules."""
    batch_bytes = header.batch_length + LOG_OVERHEAD_BYTES
    if batch_bytes > rules.size_bytes_max:
        raise MessageTooLargeError(batch_bytes, rules.size_bytes_max)
    if rules.log_append_time:
        return
    _check_timestamp(header.base_timestamp, rules, now_ms)
    _check_timestamp(header.max_timestamp, rules, now_ms)


def _check_timestamp(timestamp_ms: int, rules: AppendRules, now_ms: int) -> None:
    if timestamp_ms == NO_TIMESTAMP:
        return
    if now_ms - timestamp_ms > rules.before_max_ms:
        raise InvalidTimestampError(
            f"timestamp {timestamp_ms} is more than {rules.before_max_ms} ms before the "
            f"broker's clock ({now_ms})"
        )
    if timestamp_ms - now_ms > rules.after_max_ms:
        raise InvalidTimestampError(
            f"timestamp {timestamp_ms} is more than {rules.after_max_ms} ms after the "
            f"broker's clock ({now_ms})"
        )


def _check_records(
    batches: memoryview, position: int, header: BatchHeader, rules: AppendRules, now_ms: int
) -> None:
    """Decode each record of a batch and hold it against the header and the topic's rules."""
    count = 0
    max_timestamp = int(NO_TIMESTAMP)
    for record in iterate_records(batches, position):
        if record.offset != header.base_offset + count:
            raise InvalidRecordError(
                f"record {count} has the inner offset {record.offset - header.base_offset}"
            )
        count += 1
        if rules.needs_keys and record.key is None:
            raise InvalidRecordError(f"record {count - 1} has no key, but the topic is compacted")
        if not rules.log_append_time:
            _check_timestamp(record.timestamp, rules, now_ms)
            max_timestamp = max(max_timestamp, record.timestamp)
    if count != header.record_count:
        raise InvalidRecordError(f"{count} records found, {header.record_count} announced")
    if not rules.log_append_time and max_timestamp != header.max_timestamp:
        raise InvalidRecordError(
            f"the largest timestamp is {max_timestamp}, the header says {header.max_timestamp}"
        )


def trim_invalid_bytes(batches: memoryview, info: AppendInfo) -> memoryview:
    """Return the set without its cut tail; the same object if there is none (R28).

    Raises:
        ValueError: `info.valid_bytes` is negative, or more than there are.
    """
    valid_bytes = info.valid_bytes
    size = len(batches)
    if not 0 <= valid_bytes <= size:
        raise ValueError(f"{valid_bytes} valid bytes of {size}")
    return batches if valid_bytes == size else batches[:valid_bytes]


def assign_offsets(batches: memoryview, info: AppendInfo, leader_epoch: int) -> None:
    """Stamp a validated set in place: offsets, leader epoch and, for LogAppendTime, the time.

    Base offset and epoch lie outside the CRC's range. The time lies inside: there, the CRC is
    computed anew (R29).

    Args:
        batches: Exactly the valid bytes of the set, writable.
    """
    size = info.valid_bytes
    append_time_ms = info.append_time_ms
    if info.shallow_count == 1:
        length = size - LOG_OVERHEAD_BYTES
        _OFFSET_LENGTH_EPOCH.pack_into(batches, 0, info.first_offset, length, leader_epoch)
        if append_time_ms >= 0:
            stamp_log_append_time(batches, 0, append_time_ms)
        return
    position = 0
    offset = info.first_offset
    while position < size:
        (length,) = _LENGTH.unpack_from(batches, position + 8)
        (last_delta,) = _LAST_OFFSET_DELTA.unpack_from(
            batches, position + _LAST_OFFSET_DELTA_POSITION
        )
        _OFFSET_LENGTH_EPOCH.pack_into(batches, position, offset, length, leader_epoch)
        if append_time_ms >= 0:
            stamp_log_append_time(batches, position, append_time_ms)
        offset += last_delta + 1
        position += length + LOG_OVERHEAD_BYTES
