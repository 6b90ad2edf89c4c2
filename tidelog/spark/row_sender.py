"""RowSender: rows to partitions of a broker, as record batches that their topics take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from protocol.compression import Codec
from protocol.errors import BrokerError, ErrorCode
from protocol.identifiers import Buffer
from tidelog.segments.encoding.encode import BATCH_BYTES, encode
from tidelog.spark.broker_sender import BatchSet, BrokerSender
from tidelog.spark.sink_rows import PartitionRows

__all__ = ["RowSender"]

SET_BYTES_MAX: Final = 1024 * 1024
"""Of one request: what goes to other partitions meanwhile does not wait long."""
SHRINK: Final = 4
"""By which batches become smaller where a topic refuses them."""


class _RowSet(NamedTuple):
    """Rows of a partition that go with one request."""

    rows: pa.RecordBatch
    batch_bytes: int
    """How large their batches may be,"""
    batches: int
    """and how many there are."""
    sent: BatchSet


class RowSender:
    """Encodes rows and sends them, those of one partition in their order."""

    def __init__(self, sender: BrokerSender, codec: Codec) -> None:
        self._sender, self._codec = sender, codec
        self._batch_bytes: dict[str, int] = {}
        """By topic, where batches have to be smaller than usual."""

    def send(self, parts: Sequence[PartitionRows]) -> None:
        """Send rows, each part of another partition; on return they are committed.

        Raises:
            BrokerUnreachableError: there was no broker for as long as a restart may take.
            BrokerError: the broker refuses a record, such as one that is too large for its topic.
        """
        left = [self._sets(part) for part in parts]
        while sets := [each for of_part in left if (each := next(of_part, None)) is not None]:
            refused = self._sender.send([each.sent for each in sets])
            for each in sets:
                if each.sent.partition in refused:
                    self._send_smaller(each)

    def _send_smaller(self, refused: _RowSet) -> None:
        partition = refused.sent.partition
        if refused.batches == refused.rows.num_rows:
            raise BrokerError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record for {partition} is larger than the topic's max.message.bytes",
            )
        smaller = max(refused.batch_bytes // SHRINK, 1)
        known = self._batch_bytes.get(partition.topic, smaller)
        self._batch_bytes[partition.topic] = min(known, smaller)
        self.send([PartitionRows(partition, refused.rows)])

    def _sets(self, part: PartitionRows) -> Iterator[_RowSet]:
        """Yield the rows of a partition in pieces, each about as large as a request may be."""
        batch_bytes = self._batch_bytes.get(part.partition.topic, BATCH_BYTES)
        batches: list[Buffer] = []
        size_bytes = first = count = 0

        def taken() -> _RowSet:
            sent = BatchSet(part.partition, b"".join(batches))
            return _RowSet(part.rows.slice(first, count), batch_bytes, len(batches), sent)

        for batch in encode(part.rows, base_offset=0, codec=self._codec, batch_bytes=batch_bytes):
            if batches and size_bytes + len(batch.data) > SET_BYTES_MAX:
                yield taken()
                batches, size_bytes, first, count = [], 0, first + count, 0
            batches.append(batch.data)
            size_bytes += len(batch.data)
            count += batch.record_count
        yield taken()
