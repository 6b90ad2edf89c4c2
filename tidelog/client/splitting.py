"""Splitting: what has more entries than a broker takes in one request goes in several; no I/O.

Each function is a generator of calls, with how long the broker may hold each back: it is sent the
answer to each, and returns that to the whole.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from protocol.limits import REQUEST_ENTRIES_MAX, RESPONSE_BYTES_MAX
from protocol.native.transactions import ABORTED_MAX
from tidelog.client import calls
from tidelog.client.values import (
    AbortedTransaction,
    DeletedRecords,
    FetchAnswer,
    FetchFrom,
    TopicInfo,
    Transactions,
)

T = TypeVar("T")

SplitCall: TypeAlias = Generator[tuple[calls.Call[T], float], T, T]
"""Yields a call and the seconds that its answer may wait; is sent the answer."""


def _pieces(entries: Sequence[T]) -> list[Sequence[T]]:
    """Return runs of entries, each of which fits one request; one empty run for none."""
    starts = range(0, max(1, len(entries)), REQUEST_ENTRIES_MAX)
    return [entries[start : start + REQUEST_ENTRIES_MAX] for start in starts]


def topics(names: Sequence[str]) -> SplitCall[list[TopicInfo]]:
    """Describe topics; no names means all."""
    found: list[TopicInfo] = []
    for piece in _pieces(names):
        found += yield calls.topics(piece), 0.0
    return found


def delete_records(topic: str, offsets: Mapping[int, int]) -> SplitCall[list[DeletedRecords]]:
    """Move log starts forward."""
    found: list[DeletedRecords] = []
    for piece in _pieces(list(offsets.items())):
        found += yield calls.delete_records(topic, dict(piece)), 0.0
    return found


def transactions(topic: str, partition: int, start: int, end: int) -> SplitCall[Transactions]:
    """Ask for aborted transactions until all are told."""
    aborted: list[AbortedTransaction] = []
    while True:
        told = yield calls.aborted(topic, partition, start, end), 0.0
        aborted += told.aborted
        if len(told.aborted) < ABORTED_MAX:
            return Transactions(told.last_stable_offset, aborted)
        start = told.aborted[-1].last_offset + 1  # the next ones are decided behind that


def multi_fetch(
    sources: Sequence[FetchFrom],
    *,
    max_bytes: int,
    min_bytes: int = 1,
    max_wait_ms: int = 0,
    response_bytes_max: int = RESPONSE_BYTES_MAX,
) -> SplitCall[list[FetchAnswer]]:
    """Fetch from several partitions.

    Several requests share `max_bytes`, and the time to wait as long as nothing was found.
    """
    pieces = _pieces(sources)
    share_bytes = max(1, max_bytes // len(pieces)) if max_bytes > 0 else max_bytes
    found: list[FetchAnswer] = []
    for piece in pieces:
        wait_ms = 0 if any(each.messages or each.error for each in found) else max_wait_ms
        wait_ms //= len(pieces)
        call = calls.multi_fetch(
            piece,
            max_bytes=share_bytes,
            min_bytes=min_bytes,
            max_wait_ms=wait_ms,
            response_bytes_max=response_bytes_max,
        )
        found += yield call, wait_ms / 1000
    return found
