"""ProducerState: idempotent producers and transactions of one log (KIP-98, KIP-360).

For each producer id the epoch, the last five batches and the open transaction; from those, which
batch is a repetition, which leaves a gap, and up to where transactions are decided. In memory only,
a function of the batches in the log: `producer_loader` makes it from a snapshot and the headers
behind that. `check` looks and changes nothing; `apply` is called once the batches are written.

A producer that is unknown, for it is new or was forgotten, may begin with any sequence: its earlier
batches may have been deleted by retention (Kafka since 2.5; UNKNOWN_PRODUCER_ID is answered no
more). One that was not heard from for `producer_id_expiration_ms` is forgotten, unless it has a
transaction open. At most `producers_max` are known: one more, and the tenth of them whose last
batches are oldest is forgotten, as if expired, so a client that makes up ids costs no memory, and
idle producers the recognition of a late repetition. Producers with open transactions stay; if
there are none but those, a new producer is refused with THROTTLING_QUOTA_EXCEEDED, to be retried.
All logs of a broker together are bounded as well (`producer_room`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from broker.storage.append_origin import AppendOrigin
from broker.storage.producer import BatchMetadata, Producer, sequence_after
from broker.storage.producer_room import UNBOUNDED, ProducerRoom
from broker.storage.storage_options import PRODUCERS_MAX
from protocol.end_transaction_marker import EndTransactionMarker
from protocol.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    TooManyProducersError,
    TransactionCoordinatorFencedError,
)
from protocol.identifiers import NO_PRODUCER_EPOCH, UNKNOWN_OFFSET
from protocol.limits import INT64_MAX
from protocol.record_batch_header import BatchHeader
from protocol.stored.transaction_index import AbortedTransaction


class ProducerBatch(NamedTuple):
    """A batch with a producer id, as it is to be appended, or was."""

    header: BatchHeader
    """Its `base_offset` is the sender's, of no meaning here."""
    base_offset: int
    """Which it gets."""
    marker: EndTransactionMarker | None = None
    """What a control batch says; None: it is none, or the cleaner has emptied it."""
    max_timestamp: int = -1
    """The largest timestamp as stored: with LogAppendTime the broker's."""


class CompletedTransaction(NamedTuple):
    """A transaction that its marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The marker's."""
    is_aborted: bool
    last_stable_offset: int
    """What it became with the marker, when that is committed."""

    def to_aborted(self) -> AbortedTransaction:
        """Return the entry for the transaction index."""
        return AbortedTransaction(
            self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset
        )


class ProducerAppend:
    """What `check` has found: the state after an append that is not yet written."""

    __slots__ = ("completed", "ongoing", "producers")

    def __init__(self, ongoing: dict[int, int]) -> None:
        self.producers: dict[int, Producer] = {}
        self.ongoing = ongoing
        self.completed: list[CompletedTransaction] = []

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """Entries for the transaction index."""
        return [each.to_aborted() for each in self.completed if each.is_aborted]


class ProducerState:
    """All producers of one log; the event loop owns it."""

    __slots__ = (
        "first_unstable_offset", "has_transactions", "ongoing", "producers", "producers_max",
        "room", "unreplicated",
    )  # fmt: skip

    def __init__(self, producers_max: int = PRODUCERS_MAX) -> None:
        self.producers_max = producers_max
        self.room: ProducerRoom = UNBOUNDED
        self.producers: dict[int, Producer] = {}
        """By producer id."""
        self.ongoing: dict[int, int] = {}
        """First offset of each open transaction, by producer id; in the order of offsets."""
        self.has_transactions = False
        """There may be some in the log: else nobody needs to look for aborted ones."""
        self.unreplicated: list[CompletedTransaction] = []
        """Decided by markers at or above the high watermark."""
        self.first_unstable_offset = INT64_MAX
        """Of the first transaction that is open, or whose marker is not committed; a huge number
        if there is none. The last stable offset is never above it (R36)."""

    # --- appending ----------------------------------------------------------------------------

    def duplicate_of(self, batches: Sequence[ProducerBatch]) -> list[BatchMetadata] | None:
        """Return what was appended if every batch is a repetition, of batches in one stretch."""
        found: list[BatchMetadata] = []
        for header, *_ in batches:
            producer = self.producers.get(header.producer_id)
            if producer is None:
                return None
            last_sequence = sequence_after(header.base_sequence, header.last_offset_delta)
            original = producer.duplicate_of(
                header.producer_epoch, header.base_sequence, last_sequence
            )
            if original is None or (found and original.first_offset != found[-1].last_offset + 1):
                return None
            found.append(original)
        return found or None

    def check(self, batches: Iterable[ProducerBatch], origin: AppendOrigin) -> ProducerAppend:
        """Hold the batches of a set against the state, each after those before it.

        Raises:
            OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTransactionStateError,
            TransactionCoordinatorFencedError, TooManyProducersError: nothing may be appended.
        """
        append = ProducerAppend(dict(self.ongoing) if self.ongoing else {})
        for batch in batches:
            producer_id = batch.header.producer_id
            producer = append.producers.get(producer_id)
            if producer is None:
                known = self.producers.get(producer_id)
                if known is None and origin is not AppendOrigin.REPLICATION:
                    self._check_room(append)
                producer = Producer(producer_id) if known is None else known.copy()
                append.producers[producer_id] = producer
            _check_batch(producer, batch, origin)
            completed = _take(producer, batch, append.ongoing)
            if completed is not None:
                append.completed.append(completed)
        return append

    def _check_room(self, append: ProducerAppend) -> None:
        if len(append.ongoing) >= self.producers_max:
            raise TooManyProducersError(
                f"{self.producers_max} producers have transactions open in this partition"
            )
        if self.room.is_full:
            raise TooManyProducersError(
                f"{self.room.producers_max} producers have transactions open in this broker"
            )

    def apply(self, append: ProducerAppend, now_ms: int) -> None:
        """Take over what `check` found: the batches are written."""
        for producer_id, producer in append.producers.items():
            producer.heard_at_ms = now_ms
            if producer_id in self.producers:
                self.producers[producer_id] = producer
            else:
                self._add(producer)
        if append.completed or len(append.ongoing) != len(self.ongoing):
            self.has_transactions = True
            self.ongoing = append.ongoing
            self.unreplicated += append.completed
            self._recompute()

    def _add(self, producer: Producer) -> None:
        """Remember one that is new; a tenth of those there are is forgotten if there is no room."""
        if len(self.producers) >= self.producers_max:
            self.forget_idle(max(1, self.producers_max // 10))
        self.room.make_room()
        self.producers[producer.producer_id] = producer
        self.room.count += 1

    @property
    def idle_count(self) -> int:
        """How many have no transaction open."""
        return len(self.producers) - len(self.ongoing)

    def forget_idle(self, count: int) -> None:
        """Forget so many producers without a transaction, those whose last batches are oldest."""
        if count <= 0:
            return
        idle = [each for each in self.producers.values() if each.txn_first_offset < 0]
        idle.sort(key=lambda each: each.last_offset)
        self._forget([each.producer_id for each in idle[:count]])

    def _forget(self, producer_ids: Sequence[int]) -> None:
        for producer_id in producer_ids:
            del self.producers[producer_id]
        self.room.count -= len(producer_ids)

    # --- loading ------------------------------------------------------------------------------

    def add_loaded(self, producer: Producer) -> None:
        """Take a producer from a snapshot; call `loaded` after the last one."""
        if producer.coordinator_epoch >= 0 or producer.txn_first_offset >= 0:
            self.has_transactions = True
        if producer.producer_id not in self.producers:
            self.room.count += 1
        self.producers[producer.producer_id] = producer

    def loaded(self) -> None:
        """Order the transactions that the loaded producers have open."""
        open_ones = [each for each in self.producers.values() if each.txn_first_offset >= 0]
        open_ones.sort(key=lambda each: each.txn_first_offset)
        self.ongoing = {each.producer_id: each.txn_first_offset for each in open_ones}
        self.forget_idle(len(self.producers) - self.producers_max)
        self._recompute()

    def replay(self, batch: ProducerBatch) -> CompletedTransaction | None:
        """Take a batch that is in the log; return the transaction that it ends, if any.

        `high_watermark_moved` is to be called after the last one.
        """
        producer_id = batch.header.producer_id
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = Producer(producer_id)
            self._add(producer)
        completed = _take(producer, batch, self.ongoing)
        if completed is not None:
            self.unreplicated.append(completed)
        if self.ongoing or completed is not None:
            self.has_transactions = True
        return completed

    def clear(self) -> None:
        """Forget everything."""
        self.room.count -= len(self.producers)
        self.producers.clear()
        self.ongoing = {}
        self.unreplicated = []
        self.first_unstable_offset = INT64_MAX

    # --- transactions -------------------------------------------------------------------------

    def high_watermark_moved(self, offset: int) -> int:
        """Let go of transactions whose markers are committed; return the first unstable offset."""
        if self.unreplicated:
            self.unreplicated = [each for each in self.unreplicated if each.last_offset >= offset]
        self._recompute()
        return self.first_unstable_offset

    def _recompute(self) -> None:
        first = next(iter(self.ongoing.values()), INT64_MAX)
        self.first_unstable_offset = min(
            (each.first_offset for each in self.unreplicated), default=first
        )
        self.first_unstable_offset = min(self.first_unstable_offset, first)

    # --- forgetting ---------------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers not heard from for that long; return how many."""
        gone = [
            each.producer_id
            for each in self.producers.values()
            if each.txn_first_offset < 0 and now_ms - each.heard_at_ms >= expiration_ms
        ]
        self._forget(gone)
        return len(gone)

    # --- for the cleaner ----------------------------------------------------------------------

    def last_batch_offsets(self) -> dict[int, tuple[int, int]]:
        """Return epoch and last offset of each producer's last batch, by producer id.

        The cleaner keeps these batches, empty if need be, so that sequences survive it (B20).
        """
        return {
            each.producer_id: (each.epoch, each.last_offset)
            for each in self.producers.values()
            if each.batches
        }


def _check_batch(producer: Producer, batch: ProducerBatch, origin: AppendOrigin) -> None:
    """Check epoch, sequence and transaction of one batch (Kafka's ProducerAppendInfo)."""
    if origin is AppendOrigin.REPLICATION:
        return
    header = batch.header
    epoch, known_epoch = header.producer_epoch, producer.epoch
    if epoch < known_epoch:
        raise InvalidProducerEpochError(
            f"producer {producer.producer_id} has epoch {known_epoch}, not {epoch} any more"
        )
    if header.is_control:
        marker = batch.marker
        if marker is not None and marker.coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"a marker for producer {producer.producer_id} of coordinator epoch "
                f"{marker.coordinator_epoch}: {producer.coordinator_epoch} was there already"
            )
        return
    if producer.txn_first_offset >= 0 and not header.is_transactional:
        raise InvalidTransactionStateError(
            f"producer {producer.producer_id} has a transaction open since offset "
            f"{producer.txn_first_offset}: this batch is outside of it"
        )
    if origin is AppendOrigin.CLIENT:
        _check_sequence(producer, epoch, header.base_sequence)


def _check_sequence(producer: Producer, epoch: int, base_sequence: int) -> None:
    if producer.epoch == NO_PRODUCER_EPOCH:
        return  # nothing is known of it: any sequence will do
    expected = producer.next_sequence if epoch == producer.epoch else 0
    if base_sequence != expected:
        raise OutOfOrderSequenceError(
            f"producer {producer.producer_id} in epoch {epoch}: sequence {base_sequence}, "
            f"where {expected} is next"
        )


def _take(
    producer: Producer, batch: ProducerBatch, ongoing: dict[int, int]
) -> CompletedTransaction | None:
    """Change the producer, and the open transactions, by one batch."""
    header, base_offset, marker, max_timestamp = batch
    producer_id, epoch = producer.producer_id, header.producer_epoch
    if not header.is_control:
        delta = header.last_offset_delta
        last_sequence = sequence_after(header.base_sequence, delta)
        producer.add_batch(epoch, last_sequence, base_offset + delta, delta, max_timestamp)
        if header.is_transactional and producer.txn_first_offset < 0:
            producer.txn_first_offset = ongoing[producer_id] = base_offset
        return None
    if marker is None:
        if not header.record_count:  # the cleaner has left it for the epoch, which still fences
            producer.take_epoch(epoch, max_timestamp)
        return None
    first_offset = producer.txn_first_offset
    producer.end_transaction(epoch, marker.coordinator_epoch, marker.timestamp)
    if first_offset == UNKNOWN_OFFSET:
        return None
    ongoing.pop(producer_id, None)
    stable = next(iter(ongoing.values()), base_offset + 1)
    return CompletedTransaction(
        producer_id, first_offset, base_offset, not marker.is_commit, stable
    )
