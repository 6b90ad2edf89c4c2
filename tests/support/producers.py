"""Batches of idempotent and transactional producers, markers, and a reader of committed records."""

from __future__ import annotations

from broker.storage.append_origin import AppendOrigin
from broker.storage.log_reader import ReadLimit
from broker.storage.partition_log import PartitionLog
from protocol.compression import Codec
from protocol.end_transaction_marker import (
    EndTransactionMarker,
    build_marker_batch,
    decode_marker,
)
from protocol.errors import BatchTruncatedError
from protocol.record_batch import iterate_batches, iterate_records
from protocol.record_batch_builder import build_batch
from tests.support.log_storage import NOW_MS


def producer_batch(
    producer_id: int,
    sequence: int,
    *,
    epoch: int = 0,
    count: int = 1,
    transactional: bool = False,
    timestamp: int = NOW_MS,
    codec: Codec = Codec.NONE,
) -> memoryview:
    """A batch of `count` records, each of which says whose it is, writable."""
    records = [
        (number, timestamp, b"k", b"%d:%d:%d" % (producer_id, epoch, sequence + number))
        for number in range(count)
    ]
    return memoryview(
        bytearray(
            build_batch(
                records,
                codec=codec,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=transactional,
            )
        )
    )


def joined(*batches: memoryview) -> memoryview:
    """A set of several batches, writable."""
    return memoryview(bytearray(b"".join(batches)))


def send(log: PartitionLog, producer_id: int, sequence: int, *, epoch: int = 0, count: int = 1):
    """Append as a client does; return the AppendInfo."""
    return log.append(producer_batch(producer_id, sequence, epoch=epoch, count=count))


def send_in_transaction(
    log: PartitionLog, producer_id: int, sequence: int, *, epoch: int = 0, count: int = 1
):
    """Append to an open transaction, which the coordinator knows."""
    batch = producer_batch(producer_id, sequence, epoch=epoch, count=count, transactional=True)
    return log.append(batch, is_verified=True)


def marker_batch(
    producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0
) -> memoryview:
    """A control batch that ends a transaction, writable."""
    marker = EndTransactionMarker(commit, coordinator_epoch, NOW_MS)
    built = build_marker_batch(marker, producer_id=producer_id, producer_epoch=epoch)
    return memoryview(bytearray(built))


def end_transaction(
    log: PartitionLog,
    producer_id: int,
    *,
    commit: bool,
    epoch: int = 0,
    coordinator_epoch: int = 0,
):
    """Append the marker that ends a producer's transaction."""
    batch = marker_batch(
        producer_id, commit=commit, epoch=epoch, coordinator_epoch=coordinator_epoch
    )
    return log.append(batch, origin=AppendOrigin.COORDINATOR)


def committed_offsets(log: PartitionLog, max_bytes: int = 1 << 20) -> list[int]:
    """Return the offsets that a consumer with `read_committed` is given.

    As Kafka's clients do it: a producer's batches are left out from the first offset of an aborted
    transaction on, up to its abort marker.
    """
    found: list[int] = []
    offset = log.log_start_offset
    while True:
        data = log.read(offset, max_bytes, limit=ReadLimit.LAST_STABLE)
        if not data.slices:
            return found
        aborted = sorted(
            log.aborted_transactions(offset, log.last_stable_offset), key=lambda each: each[1]
        )
        skipped: set[int] = set()
        for piece in data.slices:
            batches = iterate_batches(stored := piece.read())
            while True:
                try:
                    position, header = next(batches)
                except (StopIteration, BatchTruncatedError):
                    break
                while aborted and aborted[0][1] <= header.last_offset:
                    skipped.add(aborted.pop(0)[0])
                offset = header.next_offset
                if header.is_control:
                    marker = decode_marker(stored, position)
                    if marker is not None and not marker.is_commit:
                        skipped.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in skipped):
                    found += [record.offset for record in iterate_records(stored, position)]


def known(log: PartitionLog) -> dict[int, tuple]:
    """All that a log knows of its producers, but for when they were heard from."""
    return {
        producer_id: (
            each.epoch, each.batches, each.next_sequence, each.last_timestamp,
            each.coordinator_epoch, each.txn_first_offset,
        )
        for producer_id, each in log.producers.producers.items()
    }  # fmt: skip
