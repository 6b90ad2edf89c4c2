"""Conversion: message formats 0 and 1 of the native protocol to record batches, and back.

A megabyte costs 7 to 11 ms of Python, of tiny messages ten times that, so no conversion runs in one
piece: the functions here are `Steps`. Each step works through about `SLICE_BYTES` or `RUN_MESSAGES`
and takes a millisecond or less; decompressing a large message is a job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from broker.steps import Steps
from broker.storage.offset_metadata import FetchData
from broker.storage.segment_check import BytesUncheckedError
from protocol import limits
from protocol.compression import Codec, codec_from_name
from protocol.errors import (
    BatchTruncatedError,
    InvalidRecordError,
    MessageTooLargeError,
    TidelogError,
)
from protocol.identifiers import Buffer
from protocol.legacy_conversion import iterate_as_v2
from protocol.record_batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    check_batch,
    open_values,
)
from protocol.record_batch_builder import build_value_batch
from protocol.simple_set_reader import INLINE_DECOMPRESSED_BYTES_MAX, SimpleSetReader
from protocol.simple_set_writer import SimpleSetWriter
from protocol.value_cursor import ValueCursor

SLICE_BYTES: Final = 32 * 1024
"""Two slices, one in and one out, stay below 64 KB a turn."""
RUN_MESSAGES: Final = 250
"""Of tiny messages it is their number that costs: 3 us each to read and to encode."""
SKIPPED_MESSAGES: Final = 2 * RUN_MESSAGES
"""What lies before the asked offset is only read."""
CHECKED_MESSAGES_MAX: Final = 2 * RUN_MESSAGES
"""With more in a slice that came in, checking them is a step of its own."""
READ_BYTES_MAX: Final = 1024 * 1024
"""Read from the log at a time, to be worked through in several turns."""
READ_BYTES_MIN: Final = 16 * 1024
INLINE_DECOMPRESSION_BYTES_MAX: Final = 16 * 1024
"""Compressed bytes above this are decompressed in a thread."""

MAGIC_POSITION: Final = 16
"""In record batches and legacy entries alike."""

RECORD_OVERHEAD_BYTES_MAX: Final = 17
"""Of a record without key and headers; never more than the entry it came in (17 or 18 bytes)."""


class ConvertedSet(NamedTuple):
    """A set of format 0 or 1 as record batches."""

    batches: bytearray
    message_count: int


def to_record_batches(
    message_set: bytes,
    message_format: int,
    *,
    message_bytes_max: int,
    compression_type: str,
    timestamp_ms: int,
    decompressed_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX,
) -> Steps[ConvertedSet]:
    """Verify a whole set (R1, R28) and build batches of it, each within `message_bytes_max`.

    Every message gets `timestamp_ms` and no key. Nothing may be appended before this has ended:
    an error in a later step refuses the whole set.

    Args:
        message_set: Not part of a frame that goes away after the first step.
        compression_type: The topic's; `producer` keeps the codec of the messages.

    Raises:
        InvalidRecordError: no message, or none but a cut one.
        TidelogError: as `SimpleSetReader.next_slice`.
    """
    batches, message_count = bytearray(), 0
    bound = message_bytes_max - HEADER_BYTES
    reader = SimpleSetReader(
        message_set,
        message_format,
        message_bytes_max=message_bytes_max,
        slice_bytes=min(SLICE_BYTES, max(bound, 1)),
        decompressed_bytes_max=decompressed_bytes_max,
    )
    fixed_codec = None if compression_type == "producer" else codec_from_name(compression_type)
    is_done = reader.is_done
    while not is_done:
        payloads = reader.next_slice()
        if len(payloads) > CHECKED_MESSAGES_MAX:
            yield None
        if payloads:
            codec = Codec(reader.codec) if fixed_codec is None else fixed_codec
            for values in split(payloads, bound):
                batches += build_value_batch(values, timestamp_ms, codec)
            message_count += len(payloads)
        is_done = reader.is_done
        if not is_done:
            large = reader.pending_bytes > INLINE_DECOMPRESSION_BYTES_MAX
            yield reader.decompress_pending if large else None
    if not message_count:
        raise InvalidRecordError("the set holds no message")
    return ConvertedSet(batches, message_count)


def split(payloads: Sequence[Buffer], bytes_max: int) -> list[Sequence[Buffer]]:
    """Split values into runs whose records take up at most `bytes_max` each.

    A value that is too large by itself is a run of its own: the log says what is wrong with it.
    """
    size_bytes = sum(map(len, payloads)) + RECORD_OVERHEAD_BYTES_MAX * len(payloads)
    if size_bytes <= bytes_max:
        return [payloads]
    runs: list[Sequence[Buffer]] = []
    start = run_bytes = 0
    for index, payload in enumerate(payloads):
        record_bytes = len(payload) + RECORD_OVERHEAD_BYTES_MAX
        if run_bytes and run_bytes + record_bytes > bytes_max:
            runs.append(payloads[start:index])
            start, run_bytes = index, 0
        run_bytes += record_bytes
    runs.append(payloads[start:])
    return runs


# --- out --------------------------------------------------------------------------------------


class SimpleSet(NamedTuple):
    """What a fetch in format 0 or 1 answers."""

    parts: list[Buffer]
    size_bytes: int
    message_count: int
    next_offset: int
    """Up to where the log was looked through: markers at the end give no message."""


def to_simple_set(
    read: Callable[[int, int], FetchData],
    offset: int,
    message_format: int,
    bytes_max: int,
    *,
    min_one: bool,
) -> Steps[SimpleSet]:
    """Read a log from exactly `offset` and encode its values, whole messages up to `bytes_max`.

    Null values become empty ones; control records are left out.

    Args:
        read: (offset, max_bytes) to file slices, the first batch whole; `PartitionLog.read`, which
            need not check them at once.
        min_one: The first message is taken even if it alone is larger than `bytes_max`.

    Raises:
        TidelogError: what `read` raises, or a damaged batch, before there was any message. After
            one, the answer ends there, and the next fetch meets the error.
    """
    writer = SimpleSetWriter(message_format, bytes_max, min_one=min_one)
    budget, next_offset = _Budget(), offset
    try:
        while data := (yield from _read_on(read, next_offset, writer)):
            read_from = next_offset
            for batch, header in _batches(data):
                if header.next_offset <= next_offset or header.is_control:
                    next_offset = max(next_offset, header.next_offset)
                    continue
                records = _Records(batch)
                if header.codec_bits and not records.open_if_small():
                    yield records.open
                for run_bytes, run_messages in records.runs(offset, writer):
                    next_offset = max(next_offset, records.next_offset)
                    if writer.is_full:
                        return _simple_set(writer, next_offset)
                    if budget.is_spent(run_bytes, run_messages):
                        yield None
                next_offset = header.next_offset
            if next_offset == read_from:
                break  # no whole batch: nothing more can be had here
            if budget.is_spent(SLICE_BYTES, 0):  # whatever was found: markers cost as well
                yield None
    except TidelogError:
        if not writer.parts:
            raise
    return _simple_set(writer, next_offset)


def _read_on(
    read: Callable[[int, int], FetchData], offset: int, writer: SimpleSetWriter
) -> Steps[bytes]:
    """Return what follows in the log, nothing at its end; it is checked if nobody has looked yet.

    Raises: what `read` raises.
    """
    # A record is smaller than the entry it becomes: more than fits is not needed.
    bytes_max = max(READ_BYTES_MIN, min(writer.bytes_left, READ_BYTES_MAX))
    while True:
        try:
            slices = read(offset, bytes_max).slices
            break
        except BytesUncheckedError as unchecked:
            steps = unchecked.steps
        yield from steps()
    if not slices:
        return b""
    if slices[0].is_cold():
        yield slices[0].read_ahead
    return slices[0].read()


def to_current_format(data: bytes, bytes_max: int, *, min_one: bool) -> Steps[list[Buffer]]:
    """Turn what an old Kafka segment holds (v0 and v1, perhaps followed by v2) into v2 batches.

    As many as fit into `bytes_max`, for they may be larger than what they were made of.

    Raises:
        TidelogError: as `iterate_as_v2`, before there was any batch. After one, they end there.
    """
    batches: list[Buffer] = []
    slice_end = SLICE_BYTES
    try:
        for batch, position in iterate_as_v2(data):
            bytes_max -= len(batch)
            if bytes_max < 0 and (batches or not min_one):
                break
            batches.append(batch)
            if position >= slice_end:
                slice_end = position + SLICE_BYTES
                yield None
    except TidelogError:
        if not batches:
            raise
    return batches


def _simple_set(writer: SimpleSetWriter, next_offset: int) -> SimpleSet:
    return SimpleSet(writer.parts, writer.size_bytes, writer.message_count, next_offset)


class _Budget:
    """What one turn of the event loop may still work through.

    It is over when half of a slice is spent: the next run may be a whole one.
    """

    __slots__ = ("_bytes", "_messages")

    def __init__(self) -> None:
        self._bytes = self._messages = 0

    def is_spent(self, size_bytes: int, messages: int) -> bool:
        """Take note of work done; True ends the turn, and the next begins with all of it."""
        self._bytes += size_bytes
        self._messages += messages
        if 2 * self._bytes < SLICE_BYTES and 2 * self._messages < RUN_MESSAGES:
            return False
        self._bytes = self._messages = 0
        return True


class _Records:
    """The records of one batch; `open` decompresses them, and may run in a thread."""

    __slots__ = ("_batch", "_cursor")

    def __init__(self, batch: Buffer) -> None:
        self._batch = batch
        self._cursor: ValueCursor | None = None

    @property
    def next_offset(self) -> int:
        """Of the message before which the last run ended."""
        assert self._cursor is not None
        return self._cursor.next_offset

    def open(self) -> None:
        """Decompress the batch, if that is not done yet."""
        if self._cursor is None:
            self._cursor = open_values(self._batch)

    def open_if_small(self) -> bool:
        """Decompress a batch that takes about a millisecond at most; return whether it did."""
        if len(self._batch) > INLINE_DECOMPRESSION_BYTES_MAX:
            return False
        try:
            self._cursor = open_values(self._batch, size_bytes_max=INLINE_DECOMPRESSED_BYTES_MAX)
        except MessageTooLargeError:
            return False  # a few bytes that claim to be a hundred megabytes
        return True

    def runs(self, from_offset: int, writer: SimpleSetWriter) -> Iterator[tuple[int, int]]:
        """Encode from an offset on, about a slice at a time; yield the (bytes, messages) of each.

        Ends early if the writer is full.
        """
        self.open()
        cursor = self._cursor
        assert cursor is not None
        while passed := cursor.skip_to(from_offset, SKIPPED_MESSAGES):
            yield SLICE_BYTES * passed // SKIPPED_MESSAGES, 0  # work all the same
        while not (cursor.is_done or writer.is_full):
            size_bytes, message_count = writer.size_bytes, writer.message_count
            writer.add(cursor, RUN_MESSAGES, SLICE_BYTES)
            yield writer.size_bytes - size_bytes, writer.message_count - message_count


def _batches(data: bytes) -> Iterator[tuple[Buffer, BatchHeader]]:
    """Yield each whole batch of a slice as a view, legacy entries converted; CRCs are checked."""
    view, position = memoryview(data), 0
    if len(data) > MAGIC_POSITION and data[MAGIC_POSITION] < MAGIC:
        for batch, _ in iterate_as_v2(view):
            yield batch, check_batch(batch)
        return
    while position < len(view):
        try:
            header = check_batch(view, position)
        except BatchTruncatedError:
            return
        end = position + header.size_bytes
        yield view[position:end], header
        position = end
