"""ExactAppend: a stream of records to a partition, each once, however often it is tried.

The stream is the same each time, so that the record at place n of it belongs at offset
`base_offset` + n. What is there already is left out; the rest is written with APPEND_AT, which
appends only if the log ends where the writer thinks. If it does not, another try has been faster,
or an answer was lost: what lies there is read and compared. So tries may even run at the same time.

A record that is not of the stream where one of it should be ends it with an error: somebody else
writes to the partition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from protocol.compression import Codec
from protocol.error_codes import ErrorCode
from protocol.errors import BrokerError
from protocol.identifiers import TopicPartition
from protocol.native.request_types import LATEST_TIME
from tidelog.client import Client, ConnectionLostError, UnexpectedOffsetError
from tidelog.segments.columns import HEADERS
from tidelog.segments.decoding import decode_batches
from tidelog.segments.encoding.encode import BATCH_BYTES, EncodedBatch, encode
from tidelog.segments.read_options import ReadOptions
from tidelog.spark.jobs.job import JobError

__all__ = ["CHECKED_RECORDS", "COLUMNS", "ExactAppend"]

COLUMNS: Final = ("key", "value", "timestamp", HEADERS)
"""What of a record is written, and compared."""
CHECKED_RECORDS: Final = 1_000
"""So many of the last records that are there already are compared with the stream."""
REQUEST_BYTES: Final = 4 << 20
SHRINK: Final = 4
"""By which batches become smaller where the topic refuses them."""
RETRIES: Final = 12
BACKOFF_MAX_S: Final = 5.0
"""A broker that is started again is back within them: half a minute in all."""
REPEATABLE: Final = (
    ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
)  # fmt: skip
READ: Final = ReadOptions(columns=COLUMNS)


class ExactAppend:
    """The writer of one partition; `add` all of the stream, then `finish`."""

    def __init__(
        self,
        client: Client,
        target: TopicPartition,
        base_offset: int,
        *,
        codec: Codec = Codec.NONE,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Args:
        base_offset: Where the first record of the stream belongs.

        Raises:
            JobError: the partition ends before that.
        """
        self._client, self._target, self._codec, self._sleep = client, target, codec, sleep
        self._base_offset = self.next_offset = base_offset
        """Where the next record of the stream belongs."""
        self.appended = 0
        """Records that were not there before."""
        self._batch_bytes = BATCH_BYTES
        self._end = self._committed_end()
        self._to_check: pa.RecordBatch | None = None
        if self._end < base_offset:
            raise JobError(
                f"{target} ends at offset {self._end}, but had {base_offset} when this began: it "
                "was deleted, or lost; begin anew with another --id"
            )

    @property
    def present(self) -> int:
        """How many records of the stream can be there already."""
        return max(self._end - self.next_offset, 0)

    def skip(self, records: int) -> None:
        """Pass by records of the stream that are there, without looking at them."""
        assert records <= self.present, "these are not there"
        self.next_offset += records

    def add(self, rows: pa.RecordBatch) -> None:
        """Append the next records, as far as they are not there.

        Raises:
            JobError: other records than these are there, or the topic changes their time.
            BrokerError: the broker refuses them.
        """
        rows = rows.select(COLUMNS)
        known = min(self.present, rows.num_rows)
        if known:
            self._to_check = rows.slice(0, known)
            self.next_offset += known
        if known < rows.num_rows:
            self._check_known()
            self._append(rows.slice(known))

    def finish(self) -> None:
        """Be sure that the last records are those of the stream. JobError: they are not."""
        self._check_known()

    # --- writing ------------------------------------------------------------------------------

    def _append(self, rows: pa.RecordBatch) -> None:
        first, size = 0, self._batch_bytes
        encoded = encode(rows, base_offset=self.next_offset, codec=self._codec, batch_bytes=size)
        for group in _groups(encoded):
            count = sum(batch.record_count for batch in group)
            self._append_group(rows.slice(first, count), group, size)
            first += count

    def _append_group(
        self, rows: pa.RecordBatch, group: list[EncodedBatch], batch_bytes: int
    ) -> None:
        """Append records, whose batches are given, however many tries it takes."""
        offset = self.next_offset
        data = b"".join(bytes(batch.data) for batch in group)
        for attempt in range(RETRIES + 1):
            try:
                answer = self._client.append_at(*self._target, offset, data)
            except UnexpectedOffsetError as error:
                self._overtaken(rows, error.log_end_offset)
                return
            except (ConnectionLostError, BrokerError) as error:
                number = error.number if isinstance(error, BrokerError) else error.code
                if number == ErrorCode.RECORD_LIST_TOO_LARGE and len(group) > 1:
                    self._append_singly(rows, group, batch_bytes)
                    return
                if number == ErrorCode.MESSAGE_TOO_LARGE and len(group) < rows.num_rows:
                    self._batch_bytes = min(self._batch_bytes, max(batch_bytes // SHRINK, 1))
                    self._append(rows)
                    return
                if number not in REPEATABLE or attempt == RETRIES:
                    raise
                self._wait(attempt)
                continue
            if answer.append_time_ms >= 0:
                raise JobError(
                    f"{self._target.topic} gives records its own time: set its "
                    "message.timestamp.type to CreateTime, and begin anew with another --id"
                )
            self.next_offset += rows.num_rows
            self.appended += rows.num_rows
            self._end = self.next_offset
            return

    def _append_singly(
        self, rows: pa.RecordBatch, group: list[EncodedBatch], batch_bytes: int
    ) -> None:
        """Append batch by batch: together they are larger than a segment of the topic."""
        first = 0
        for batch in group:
            self._append_group(rows.slice(first, batch.record_count), [batch], batch_bytes)
            first += batch.record_count

    def _overtaken(self, rows: pa.RecordBatch, log_end_offset: int) -> None:
        """Go on where the log ends, if what has come meanwhile is of the stream."""
        if log_end_offset < self.next_offset:
            raise JobError(
                f"{self._target} ends at offset {log_end_offset} now, and had "
                f"{self.next_offset}: records were lost"
            )
        self._wait_for(log_end_offset)
        self._end = log_end_offset
        known = min(self.present, rows.num_rows)
        self._to_check = rows.slice(0, known)
        self.next_offset += known
        self._check_known()
        if known < rows.num_rows:
            self._append(rows.slice(known))

    # --- reading ------------------------------------------------------------------------------

    def _check_known(self) -> None:
        """Compare the last records that were there with those of the stream."""
        rows, self._to_check = self._to_check, None
        if rows is None:
            return
        rows = rows.slice(max(0, rows.num_rows - CHECKED_RECORDS))
        offset = self.next_offset - rows.num_rows
        if self._stored(offset, self.next_offset) != rows.to_pylist():
            raise JobError(
                f"{self._target} has other records at offsets {offset} to {self.next_offset - 1} "
                "than this job would put there: somebody else writes to it, so take another topic"
            )

    def _stored(self, offset: int, end_offset: int) -> list[dict[str, Any]]:
        """Return the records that are there."""
        found: list[dict[str, Any]] = []
        while offset < end_offset:
            try:
                answer = self._client.fetch_batches(*self._target, offset, max_bytes=REQUEST_BYTES)
            except BrokerError as error:
                if error.number != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                raise JobError(
                    f"offsets {offset} to {end_offset - 1} of {self._target} cannot be compared, "
                    "they are deleted already: set its retention.ms to -1, and begin anew with "
                    "another --id"
                ) from error
            topic, partition = self._target
            rows, next_offset = decode_batches(
                answer.data, topic=topic, partition=partition, options=READ,
                start_offset=offset, end_offset=end_offset, where=str(self._target),
            )  # fmt: skip
            found += [] if rows is None else rows.to_pylist()
            if next_offset == offset:
                break
            offset = next_offset
        return found

    def _committed_end(self) -> int:
        return self._client.offsets(*self._target, time_ms=LATEST_TIME)[0]

    def _wait_for(self, offset: int) -> None:
        """Wait until what lies below an offset can be read."""
        for attempt in range(RETRIES):
            if self._committed_end() >= offset:
                return
            self._wait(attempt)
        raise JobError(f"{self._target} has not committed offset {offset - 1}; is its disk full?")

    def _wait(self, attempt: int) -> None:
        self._sleep(min(BACKOFF_MAX_S, 0.05 * 2**attempt))


def _groups(batches: Iterator[EncodedBatch]) -> Iterator[list[EncodedBatch]]:
    """Yield batches as they go into one request: few bytes, unless one alone is large."""
    group: list[EncodedBatch] = []
    size = 0
    for batch in batches:
        if group and size + len(batch.data) > REQUEST_BYTES:
            yield group
            group, size = [], 0
        group.append(batch)
        size += len(batch.data)
    if group:
        yield group
