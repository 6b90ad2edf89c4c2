"""TRANSACTIONS and its answer; `docs/native-protocol.md` has them in full.

    request    topic:str16 partition:i32 start:i64 end:i64
    answer     last_stable:i64 count:i32 { producer_id:i64 first_offset:i64 last_offset:i64 }

Framing and errors are those of `requests` and `responses`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from protocol.identifiers import Buffer
from protocol.native.fields import (
    bad_frame,
    check_count,
    check_end,
    pack,
    read_str16,
    str16,
    whole_request,
)
from protocol.native.request_types import RequestType

TransactionsRequest: TypeAlias = tuple[bytes, int, int, int]
"""topic, partition, start, end"""

ABORTED_MAX: Final = 10_000
"""Of one answer. One that has so many may lack others: ask again behind its last marker."""

_FIELDS: Final = struct.Struct(">iqq")  # partition start end
_HEAD: Final = struct.Struct(">ihqi")  # total_length error last_stable count
_HEAD_AT_ERROR: Final = struct.Struct(">hqi")
_ABORTED: Final = struct.Struct(">qqq")
assert (_FIELDS.size, _HEAD.size, _ABORTED.size) == (20, 18, 24), "the text and the structs differ"


class Aborted(NamedTuple):
    """An aborted transaction: the producer's batches between two offsets, both included."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Its marker's."""


class TransactionsAnswer(NamedTuple):
    """What a broker says of a partition's transactions."""

    error: int
    last_stable_offset: int
    """Below it all transactions are decided; -1 on error."""
    aborted: list[Aborted]
    """In the order of their markers."""


# --- what the broker does ---------------------------------------------------------------------


def decode_transactions(frame: Buffer) -> TransactionsRequest:
    """Return (topic, partition, start, end).

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        topic, position = read_str16(frame, 2)
        partition, start, end = _FIELDS.unpack_from(frame, position)
    except struct.error:
        bad_frame("TRANSACTIONS ends inside its fields")
    check_end(frame, position + _FIELDS.size)
    return topic, partition, start, end


def encode_transactions_response(
    error: int, last_stable_offset: int = -1, aborted: Iterable[tuple[int, int, int]] = ()
) -> bytes:
    """Return the whole answer; `aborted` as Aborted, none on error."""
    entries = [_ABORTED.pack(*each) for each in aborted]
    total_length = _HEAD_AT_ERROR.size + len(entries) * _ABORTED.size
    head = _HEAD.pack(total_length, error, last_stable_offset, len(entries))
    return b"".join((head, *entries))


# --- what clients do --------------------------------------------------------------------------


def encode_transactions(topic: str | bytes, partition: int, start: int, end: int) -> bytes:
    """Return the request."""
    fields = pack(_FIELDS, partition, start, end)
    return whole_request(RequestType.TRANSACTIONS, str16(topic), fields)


def decode_transactions_response(frame: Buffer) -> TransactionsAnswer:
    """Return the answer.

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        error, last_stable_offset, count = _HEAD_AT_ERROR.unpack_from(frame)
    except struct.error:
        bad_frame("TRANSACTIONS answer ends inside its fields")
    position = _HEAD_AT_ERROR.size
    check_count(frame, position, count, _ABORTED.size)
    check_end(frame, position + count * _ABORTED.size)
    aborted = map(Aborted._make, _ABORTED.iter_unpack(memoryview(frame)[position:]))
    return TransactionsAnswer(error, last_stable_offset, list(aborted))
