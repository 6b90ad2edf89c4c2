"""Plain batches: the short way for what producers send nearly always (R28, R29).

A *plain* set is one whole record batch that says nothing but its codec: no
transaction, no control records, for a topic whose records need not be decoded and keep their
timestamps. Its header tells all there is to check. Every other set, and every wrong one, takes the
long way of `append_info`, which knows the exact errors; what is plain there has the same outcome.

A batch with a producer id that is plain in all else, of a producer that is known and with the
sequence that is next, is plain too: Java producers are idempotent unless told not to.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from protocol.checksum import crc32c
from protocol.identifiers import NO_PRODUCER_ID
from protocol.limits import RECORDS_PER_BATCH_MAX
from protocol.record_batch_header import (
    ATTRIBUTES_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    RECORD_BYTES_MIN,
)

if TYPE_CHECKING:
    from broker.storage.append_info import AppendRules
    from broker.storage.producer import Producer

PLAIN_ATTRIBUTES_MAX: Final = 4
"""Attributes of a batch that says nothing but its codec: 0 none ... 4 zstd."""

_header_of = HEADER.unpack_from
_stamp = struct.Struct(">qii").pack_into  # base offset, batch length, leader epoch


def stamp_plain(
    batches: memoryview,
    rules: AppendRules,
    now_ms: int,
    first_offset: int,
    leader_epoch: int,
    producers: Mapping[int, Producer],
) -> tuple[int, int, Producer | None] | None:
    """Give a plain set its offsets and leader epoch, in place, if that is what it is.

    Args:
        batches: Writable.
        now_ms: The broker's clock, against which timestamps are held.
        first_offset: What the first record gets.
        producers: Those of the log, by id.

    Returns:
        Its records, their largest timestamp, and its producer, who is to be told of it; None where
        it is not plain: nothing was changed.
    """
    size = len(batches)
    if size < HEADER_BYTES:
        return None
    (_, length, _, magic, crc, attributes, last_delta, base_timestamp, max_timestamp,
     producer_id, producer_epoch, sequence, count) = _header_of(batches)  # fmt: skip
    producer = None
    if producer_id != NO_PRODUCER_ID:
        producer = producers.get(producer_id)
        if (
            producer is None
            or producer.next_sequence != sequence
            or producer.epoch != producer_epoch
            or producer.txn_first_offset >= 0
        ):
            return None
    if (
        length + LOG_OVERHEAD_BYTES == size
        and magic == MAGIC
        and 0 <= attributes <= PLAIN_ATTRIBUTES_MAX
        and 0 < count == last_delta + 1 <= RECORDS_PER_BATCH_MAX
        and (attributes or count * RECORD_BYTES_MIN <= size - HEADER_BYTES)
        and size <= rules.plain_bytes_max
        and now_ms - rules.before_max_ms <= base_timestamp <= max_timestamp
        and max_timestamp <= now_ms + rules.after_max_ms
        and crc32c(batches[ATTRIBUTES_POSITION:]) == crc
    ):
        _stamp(batches, 0, first_offset, length, leader_epoch)
        return count, max_timestamp, producer
    return None
