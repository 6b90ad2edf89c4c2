"""Fetched values: what came with a fetch, and a MULTIFETCH of several partitions."""

from __future__ import annotations

from protocol.record_batch import Record, iterate_batches, iterate_records
from protocol.simple_message_set import iterate
from tests.support.native_broker import Sent


def simple(sent: Sent, message_format: int) -> list[tuple[int, bytes]]:
    error, message_set = sent.fetched
    assert error == 0
    return [(offset, bytes(value)) for offset, value in iterate(message_set, message_format)]


def records(message_set: memoryview) -> list[Record]:
    return [
        record
        for position, _ in iterate_batches(message_set)
        for record in iterate_records(message_set, position)
    ]
