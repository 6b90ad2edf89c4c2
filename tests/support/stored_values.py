"""Stored values: what a broker under test has in its log."""

from __future__ import annotations

from protocol.record_batch import Record, iterate_batches, iterate_records
from tests.support.native_broker import NativeBroker


def stored(broker: NativeBroker, topic: str = "logs", partition: int = 0) -> list[Record]:
    """All records up to the high watermark."""
    message_set = broker.fetch(topic, 0, partition=partition, max_bytes=1 << 30).fetched.message_set
    return [
        record
        for position, _ in iterate_batches(message_set)
        for record in iterate_records(message_set, position)
    ]


def values(broker: NativeBroker, topic: str = "logs", partition: int = 0) -> list[bytes | None]:
    return [record.value for record in stored(broker, topic, partition)]
