"""Sending: from what a fetch found to the buffers of its answer.

Record batches go out as they are stored, as mapped slices where the event loop can send those. What
is not in memory is read ahead in a thread first. What an old Kafka segment holds is converted to
record batches; formats 0 and 1 are always converted. All of it in steps (see `conversion`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.requests.conversion import (
    MAGIC_POSITION,
    SLICE_BYTES,
    to_current_format,
    to_simple_set,
)
from broker.steps import Steps
from protocol.errors import TidelogError
from protocol.identifiers import Buffer
from protocol.record_batch import MAGIC

if TYPE_CHECKING:
    from broker.partition import Partition
    from broker.storage.file_slice import FileSlice
    from broker.storage.offset_metadata import FetchData
    from broker.storage.segment_check import BytesUncheckedError

ENTRIES_PER_STEP: Final = 100
"""Of record batches, which are not looked into."""
ENTRY_COST_BYTES: Final = SLICE_BYTES // 8
"""What an entry that is converted takes off a step beside its bytes: it may have had to decompress
up to half a megabyte for them."""

ENOUGH: Final = 1 << 62
"""More bytes than anybody can wait for."""
NO_BUFFERS: Final[Sequence[Buffer]] = ()


class Found(NamedTuple):
    """What a look at one partition found: an error, or slices."""

    error: int
    offset: int
    """The one asked for."""
    max_bytes: int
    """What was asked for; what others take of the whole is not off yet."""
    partition: Partition | None = None
    data: FetchData | None = None
    unchecked: BytesUncheckedError | None = None
    """In the place of data, which has to be checked first."""

    @property
    def size_bytes(self) -> int:
        """What there is, as far as anybody waits for more: beside an error nobody does."""
        if self.unchecked is not None:
            return self.unchecked.size_bytes
        if self.error or self.data is None:
            return ENOUGH
        return self.data.size_bytes


class Send(NamedTuple):
    """The answer to one entry of a fetch."""

    error: int
    buffers: Sequence[Buffer] = NO_BUFFERS
    next_offset: int = -1
    """Formats 0 and 1: up to where the log was looked through, be it without a message."""


def checked(
    found: Sequence[Found], look: Callable[[], Steps[list[Found]]]
) -> Steps[Sequence[Found]]:
    """Check what nobody has looked at yet, and look again; what has failed is an error there."""
    failures: dict[int, int] = {}
    while any(each.unchecked is not None for each in found):
        for number, each in enumerate(found):
            if each.unchecked is not None:
                try:
                    yield from each.unchecked.steps()
                except TidelogError as problem:
                    failures[number] = problem.code
        again = yield from look()
        for number, code in failures.items():
            again[number] = Found(code, again[number].offset, again[number].max_bytes)
        found = again
    return found


def batch_sends(
    found: Sequence[Found],
    look: Callable[[], Steps[list[Found]]],
    is_cold: Callable[[FileSlice], bool],
    *,
    mapped: bool,
    bytes_max: int,
) -> Steps[list[Send]]:
    """Return record batches for each entry, within what was found.

    Args:
        look: Finds it again, once it was checked.
        is_cold: Whether a slice has to be read ahead.
        mapped: Mapped slices may be sent.
        bytes_max: For the whole answer: what is converted may grow, the rest was found within it.
    """
    sends: list[Send] = []
    bytes_left = bytes_max
    found = yield from checked(found, look)
    for count, (error, offset, _, partition, data, _) in enumerate(found):
        if count and not count % ENTRIES_PER_STEP:
            yield None
        if error or partition is None or data is None:
            sends.append(Send(error))
            continue
        buffers: list[Buffer] = []
        try:
            may_be_legacy = offset < partition.legacy_end_offset
            for piece in data.slices:
                if is_cold(piece):
                    yield piece.read_ahead
                if may_be_legacy and holds_legacy(piece):
                    min_one = not buffers and bytes_left == bytes_max
                    buffers += yield from to_current_format(
                        piece.read(), bytes_left, min_one=min_one
                    )
                else:
                    buffers += piece.buffers(mapped=mapped)
        except TidelogError as problem:
            sends.append(Send(problem.code))
            continue
        size_bytes = sum(map(len, buffers))
        bytes_left -= size_bytes
        partition.bytes_out += size_bytes
        sends.append(Send(0, buffers))
    return sends


def simple_sends(found: Sequence[Found], message_format: int, bytes_max: int) -> Steps[list[Send]]:
    """Return messages of format 0 or 1 for each entry; only the first may exceed `bytes_max`."""
    sends: list[Send] = []
    bytes_left = bytes_max
    min_one = True
    spent_bytes = 0
    for error, offset, max_bytes, partition, _, _ in found:
        if spent_bytes >= SLICE_BYTES:
            spent_bytes = 0
            yield None
        max_bytes = min(max_bytes, bytes_left)
        if error or partition is None or max_bytes <= 0:
            sends.append(Send(error, next_offset=offset))
            continue
        spent_bytes += ENTRY_COST_BYTES
        try:
            converted = yield from to_simple_set(
                partial(partition.log.read, at_once=False),
                offset,
                message_format,
                max_bytes,
                min_one=min_one,
            )
        except TidelogError as problem:
            sends.append(Send(problem.code))
            continue
        if converted.message_count:
            min_one = False
            bytes_left = max(0, bytes_left - converted.size_bytes)
        spent_bytes += converted.size_bytes
        partition.bytes_out += converted.size_bytes
        partition.messages_out += converted.message_count
        sends.append(Send(0, converted.parts, converted.next_offset))
    return sends


def holds_legacy(piece: FileSlice) -> bool:
    """Whether a slice starts with message format v0 or v1; only then may it hold them at all."""
    magic = piece.records.read_bytes(piece.position + MAGIC_POSITION, 1)
    return magic < bytes((MAGIC,))
