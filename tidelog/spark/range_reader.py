"""RangeReader: the records of a range of offsets of a broker, fetched as they are stored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from protocol.errors import BrokerError, ErrorCode
from tidelog.client import EARLIEST, LATEST, StoredBatches
from tidelog.client.retrying import is_unknown_topic
from tidelog.segments.columns import HEADERS
from tidelog.segments.decoding import AbortedMask, decode_batches
from tidelog.segments.errors import SegmentError
from tidelog.segments.read_options import CORRUPT, ReadOptions
from tidelog.segments.read_options import schema as schema_of
from tidelog.segments.transactions import AbortedBatches
from tidelog.spark.broker_link import BrokerLink
from tidelog.spark.offset_ranges import OffsetRange

__all__ = ["RangeReader"]

logger: Final = logging.getLogger(__name__)

FETCH_BYTES_MIN: Final = 64 * 1024
FETCH_BYTES_MAX: Final = 4 * 1024 * 1024
RECORD_BYTES: Final = 1024
"""What a record is taken for, so that a short range does not fetch megabytes behind its end."""


class RangeReader:
    """Reads one range; waits for a broker that is restarted."""

    def __init__(
        self,
        link: BrokerLink,
        wanted: OffsetRange,
        options: ReadOptions,
        on_loss: Callable[[str], object],
    ) -> None:
        """Args:
        wanted: For `read_committed` all of it below the last stable offset.
        on_loss: Told what is gone; reading goes on behind it, unless this raises.
        """
        self._link, self._options, self._on_loss = link, options, on_loss
        self._partition, self._start, self._end = wanted

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records.

        Raises:
            SegmentError: there is damage, and `on_corrupt` is "fail".
            BrokerUnreachableError: the broker is gone for longer than a restart takes.
        """
        topic, partition = self._partition
        is_aborted = self._aborted()
        offset = self._start
        while offset < self._end:
            try:
                fetched = self._fetched(offset, self._end)
            except BrokerError as error:
                if error.number == ErrorCode.CORRUPT_MESSAGE:
                    behind = self._behind_damage(offset)
                    if self._options.on_corrupt == "tag":
                        yield self._damage_row(offset, behind)
                else:
                    behind = self._behind_loss(offset, error)
                offset = behind
                continue
            if fetched.next_offset == offset:
                self._check_end(offset)
                return
            rows, _ = decode_batches(
                fetched.data, topic=topic, partition=partition, options=self._options,
                start_offset=offset, end_offset=self._end, is_aborted=is_aborted,
                where=f"{self._partition} of {self._link.address}",
            )  # fmt: skip
            if rows is not None:
                yield rows
            offset = fetched.next_offset

    def _aborted(self) -> AbortedMask | None:
        """Return what tells which batches are of aborted transactions; None: none is left out.

        Asked for before the first fetch: what a cleaner takes from the broker's list later, it has
        taken from the log before.
        """
        if self._options.isolation != "read_committed":
            return None
        try:
            told = self._link.ask(
                lambda client: client.transactions(
                    *self._partition, start=self._start, end=self._end
                )
            )
        except BrokerError as error:
            if is_unknown_topic(error):  # as the first fetch will find
                return None
            raise
        return AbortedBatches(told.aborted)

    # --- what is not there ------------------------------------------------------------------

    def _behind_loss(self, offset: int, error: BrokerError) -> int:
        """Return where reading goes on if the next offset is gone: retention has overtaken it."""
        behind = self._end
        if error.number == ErrorCode.OFFSET_OUT_OF_RANGE:
            earliest = self._offset_at(EARLIEST)
            if earliest is not None and earliest > offset:  # else it was cut below it, or deleted
                behind = min(earliest, self._end)
        elif not is_unknown_topic(error):
            raise error
        self._on_loss(f"offsets {offset} to {behind - 1} of {self._partition} are there no more")
        return behind

    def _check_end(self, offset: int) -> None:
        """Say whether what was not found up to the end was compacted away, or is lost."""
        latest = self._offset_at(LATEST)
        if latest is None:
            self._on_loss(f"{self._partition} is there no more")
        elif latest < self._end:
            self._on_loss(
                f"{self._partition} ends at {latest}, and was to be read from {offset} to "
                f"{self._end}"
            )

    # --- damage -----------------------------------------------------------------------------

    def _behind_damage(self, offset: int) -> int:
        """Return the first offset behind one that the broker cannot read; the end if there is none.

        One by one: only the broker knows where its damaged stretch ends, and does not tell.
        """
        if self._options.on_corrupt == "fail":
            raise SegmentError(
                f"{self._partition} of {self._link.address} is damaged from offset {offset} on; "
                "onCorrupt=skip or tag goes on behind it"
            )
        behind = offset + 1
        while behind < self._end:
            try:
                self._fetched(behind, behind + 1, bytes_min=1)
            except BrokerError as error:
                if error.number != ErrorCode.CORRUPT_MESSAGE:
                    break  # as the next fetch will find
                behind += 1
            else:
                break
        logger.warning(
            "left out: damaged offsets %d to %d of %s", offset, behind - 1, self._partition
        )
        return behind

    def _damage_row(self, offset: int, behind: int) -> pa.RecordBatch:
        known: dict[str, object] = {
            "topic": self._partition.topic,
            "partition": self._partition.partition,
            "offset": offset,
            HEADERS: [],
            CORRUPT: f"offsets {offset} to {behind - 1} of {self._partition} are damaged",
        }
        fields = schema_of(self._options)
        arrays: list[Any] = [pa.array([known.get(field.name)], type=field.type) for field in fields]
        return pa.RecordBatch.from_arrays(arrays, schema=fields)

    # --- questions --------------------------------------------------------------------------

    def _fetched(self, offset: int, end: int, bytes_min: int = FETCH_BYTES_MIN) -> StoredBatches:
        max_bytes = min(max((end - offset) * RECORD_BYTES, bytes_min), FETCH_BYTES_MAX)
        return self._link.ask(
            lambda client: client.fetch_batches(*self._partition, offset, max_bytes=max_bytes)
        )

    def _offset_at(self, time: int) -> int | None:
        """Return the log's begin or end; None if there is no log any more."""
        try:
            return self._link.ask(lambda client: client.offsets(*self._partition, time_ms=time))[0]
        except BrokerError as error:
            if is_unknown_topic(error):
                return None
            raise
