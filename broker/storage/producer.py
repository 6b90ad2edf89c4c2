"""Producer: what one log knows of one idempotent producer (KIP-98; Kafka's ProducerStateEntry)."""

from __future__ import annotations

from typing import Final, NamedTuple

from protocol.identifiers import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_SEQUENCE, UNKNOWN_OFFSET
from protocol.limits import INT32_MAX
from protocol.stored.producer_snapshot import EarlierBatch, ProducerEntry

BATCHES_KEPT: Final = 5
"""As many as a producer may have under way (`max.in.flight.requests.per.connection`)."""


class BatchMetadata(NamedTuple):
    """A batch that was appended: by its sequences a repetition of it is known."""

    last_sequence: int
    """-1: it came without sequences."""
    last_offset: int
    offset_delta: int
    """Last offset less the first; the same for sequences."""
    timestamp: int
    """The largest of the batch, milliseconds."""

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return sequence_before(self.last_sequence, self.offset_delta)


class Producer:
    """The state of one producer id; changed by `ProducerState` only."""

    __slots__ = (
        "batches", "coordinator_epoch", "epoch", "heard_at_ms", "last_timestamp", "next_sequence",
        "producer_id", "txn_first_offset",
    )  # fmt: skip

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self.batches: list[BatchMetadata] = []
        """Its last ones, oldest first, of the current epoch; at most `BATCHES_KEPT`."""
        self.next_sequence = 0
        """Which the next batch has to begin with; 0 where none is known."""
        self.last_timestamp = -1
        """Of its last batch or marker, milliseconds."""
        self.coordinator_epoch: int = NO_LEADER_EPOCH
        """Of its last marker; -1 if there was none."""
        self.txn_first_offset: int = UNKNOWN_OFFSET
        """Where its open transaction began; -1 if none is open."""
        self.heard_at_ms = -1
        """When its last batch or marker came in, by the broker's clock: it expires by that."""

    @property
    def last_sequence(self) -> int:
        """Of its last batch; -1 if none is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Of its last batch; -1 if none is known."""
        return self.batches[-1].last_offset if self.batches else UNKNOWN_OFFSET

    def copy(self) -> Producer:
        """Return another one with the same state."""
        copy = Producer.__new__(Producer)
        copy.producer_id, copy.epoch, copy.batches = self.producer_id, self.epoch, [*self.batches]
        copy.next_sequence, copy.last_timestamp = self.next_sequence, self.last_timestamp
        copy.coordinator_epoch = self.coordinator_epoch
        copy.txn_first_offset, copy.heard_at_ms = self.txn_first_offset, self.heard_at_ms
        return copy

    def add_batch(
        self, epoch: int, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int
    ) -> None:
        """Take note of a batch; one of another epoch takes the place of all before it."""
        batches = self.batches
        if epoch != self.epoch:
            self.epoch = epoch
            batches.clear()
        elif len(batches) >= BATCHES_KEPT:
            del batches[0]
        batches.append(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp))
        self.next_sequence = 0 if last_sequence == INT32_MAX else last_sequence + 1
        self.last_timestamp = timestamp

    def end_transaction(self, epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Take note of a marker."""
        self.take_epoch(epoch, timestamp)
        self.coordinator_epoch = coordinator_epoch
        self.txn_first_offset = UNKNOWN_OFFSET

    def take_epoch(self, epoch: int, timestamp: int) -> None:
        """Take note of a marker of which nothing is left but its epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0
        self.last_timestamp = timestamp

    def duplicate_of(
        self, epoch: int, base_sequence: int, last_sequence: int
    ) -> BatchMetadata | None:
        """Return the batch that was appended with just these sequences, if it is remembered."""
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == base_sequence:
                    return batch
        return None

    # --- snapshots ----------------------------------------------------------------------------

    def to_entry(self) -> ProducerEntry:
        """Return what Kafka's snapshot says of it."""
        last = self.batches[-1] if self.batches else NO_BATCH
        return ProducerEntry(
            self.producer_id, self.epoch, last.last_sequence, last.last_offset, last.offset_delta,
            self.last_timestamp, self.coordinator_epoch, self.txn_first_offset,
        )  # fmt: skip

    def earlier_batches(self) -> list[EarlierBatch]:
        """Return what stands behind the entries of our own snapshots.

        The last batch too, where a marker came after it: its timestamp has no place in the entry.
        """
        told = self.batches[:-1]
        if self.batches and self.batches[-1].timestamp != self.last_timestamp:
            told = self.batches
        return [EarlierBatch(self.producer_id, *batch) for batch in told]

    @classmethod
    def from_entry(cls, entry: ProducerEntry, earlier: list[BatchMetadata]) -> Producer:
        """Return the producer that a snapshot tells of."""
        producer = cls(entry.producer_id)
        producer.epoch = entry.producer_epoch
        if entry.last_offset >= 0:
            last = BatchMetadata(
                entry.last_sequence, entry.last_offset, entry.offset_delta, entry.last_timestamp
            )
            if earlier and earlier[-1].last_offset == last.last_offset:
                last = earlier.pop()
            producer.batches = [*earlier[1 - BATCHES_KEPT :], last]
            sequence = entry.last_sequence
            producer.next_sequence = 0 if sequence == INT32_MAX else sequence + 1
        producer.last_timestamp = entry.last_timestamp
        producer.coordinator_epoch = entry.coordinator_epoch
        producer.txn_first_offset = entry.current_txn_first_offset
        return producer

    def __repr__(self) -> str:
        return f"Producer({self.to_entry()!r}, earlier={self.earlier_batches()!r})"


NO_BATCH: Final = BatchMetadata(NO_SEQUENCE, UNKNOWN_OFFSET, 0, -1)


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence `count` after one; after 2^31-1 comes 0. Of none (-1) it is none."""
    if sequence < 0:
        return NO_SEQUENCE
    return sequence + count if sequence <= INT32_MAX - count else count - (INT32_MAX - sequence) - 1


def sequence_before(sequence: int, count: int) -> int:
    """Return the sequence `count` before one; before 0 comes 2^31-1. Of none (-1) it is none."""
    if sequence < 0:
        return NO_SEQUENCE
    return sequence - count if sequence >= count else INT32_MAX - (count - sequence) + 1
