"""ProducerLoader: makes the producers' state of a log from a snapshot and the headers behind it.

The newest snapshot at or below the log end that can be believed; from its offset on, every batch
header, and the record of each marker. Without any snapshot that is the whole log. What a snapshot
says is believed if its checksum is right and the log has the batches that it tells of, so that one
of another log is passed over.

The transaction indexes of segments that are walked from their beginning are built anew on the way,
those that recovery has checked among them. Then a snapshot is written at the log end, so that all
this is done once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import structlog

from broker.storage.disk import storage_errors
from broker.storage.header_walk import headers_from
from broker.storage.producer import Producer, sequence_after
from broker.storage.producer_snapshots import ProducerSnapshots
from broker.storage.producer_state import CompletedTransaction, ProducerBatch, ProducerState
from broker.storage.recent_batches import RecentBatches
from broker.storage.segments import Segments
from protocol.end_transaction_marker import (
    CONTROL_BATCH_BYTES_MAX,
    EndTransactionMarker,
    decode_marker,
)
from protocol.errors import CorruptMessageError, StorageError
from protocol.record_batch_header import HEADER_BYTES, BatchHeader, parse_header
from protocol.stored.file_names import TRANSACTION_INDEX_SUFFIX

if TYPE_CHECKING:
    from broker.storage.log_config import LogConfig
    from broker.storage.log_context import LogContext
    from broker.storage.segment import LogSegment

_log = structlog.get_logger(__name__)

ENTRIES_COMPARED: Final = 8
"""Of a snapshot, with the batches that they tell of: those of another log differ at once."""

OnSegment: TypeAlias = "Callable[[LogSegment, list[CompletedTransaction]], None]"


class LoadedProducers(NamedTuple):
    """What `load_producers` has found."""

    state: ProducerState
    snapshots: ProducerSnapshots
    replayed_bytes: int = 0
    """Of segments whose headers were walked."""


def new_producers(context: LogContext, directory: Path) -> LoadedProducers:
    """Return those of a log that was just made."""
    state = ProducerState(context.options.producers_per_partition_max)
    return LoadedProducers(state, ProducerSnapshots(context.disk, directory))


def load_producers(
    context: LogContext,
    directory: Path,
    segments: Sequence[LogSegment],
    config: LogConfig,
    *,
    log_end_offset: int,
    rebuild_from: int | None = None,
    recent_batches: Mapping[int, Sequence[tuple[int, BatchHeader]]] | None = None,
) -> LoadedProducers:
    """Load the producers of a log whose segments were loaded, or recovered.

    Needs nothing but the files, and leaves in them what the next call finds: it may run in the
    process that recovers the log, and again in the broker's.

    Args:
        segments: All, oldest first.
        rebuild_from: The base offset of the first segment that recovery has checked: transaction
            indexes from there on are built anew. None after a clean stop.
        recent_batches: By base offset, of segments that recovery has walked and that hold no
            transactions, what it has met (`RecentBatches`): they need not be walked again.

    Raises:
        StorageError: a file cannot be read, or a snapshot above the log end not be removed.
        OSError: a sync failed: final.
    """
    loader = _Loader(context, directory, Segments(segments), config, log_end_offset)
    loader.recent_batches = recent_batches or {}
    return loader.load(rebuild_from)


def reload_producers(
    context: LogContext,
    state: ProducerState,
    snapshots: ProducerSnapshots,
    segments: Segments,
    config: LogConfig,
    *,
    log_end_offset: int,
    high_watermark: int,
) -> None:
    """Set `state` back to what the log says below `log_end_offset`, after a cut.

    Errors as `load_producers`.
    """
    loader = _Loader(context, snapshots.directory, segments, config, log_end_offset)
    loader.state, loader.snapshots, loader.high_watermark = state, snapshots, high_watermark
    state.clear()
    loader.load(None)


def rebuild_transaction_index(
    context: LogContext,
    snapshots: ProducerSnapshots,
    segments: Segments,
    config: LogConfig,
    segment: LogSegment,
    end_offset: int,
) -> None:
    """Build the transaction index of one segment anew, from the batches; and its checksum.

    Args:
        end_offset: The segment's.

    Raises:
        StorageError: a file cannot be read or written.
        OSError: a sync failed: final.
    """
    loader = _Loader(context, snapshots.directory, segments, config, end_offset)
    loader.snapshots = snapshots
    start = loader.start_from_snapshot(segment.base_offset)

    def replace(each: LogSegment, completed: list[CompletedTransaction]) -> None:
        if each is segment:
            _replace_index(each, completed)

    loader.replay(start, replace)
    loader.state.high_watermark_moved(end_offset)
    if not snapshots.set_checksum(end_offset, segment):
        snapshots.write(end_offset, loader.state, segments)


class _Loader:
    """One load of one log."""

    def __init__(
        self,
        context: LogContext,
        directory: Path,
        segments: Segments,
        config: LogConfig,
        log_end_offset: int,
    ) -> None:
        self.context, self.directory, self.config = context, directory, config
        self.segments, self.log_end_offset = segments, log_end_offset
        self.state = ProducerState(context.options.producers_per_partition_max)
        self.snapshots: ProducerSnapshots | None = None
        self.high_watermark = log_end_offset
        self.replayed_bytes = 0
        self.recent_batches: Mapping[int, Sequence[tuple[int, BatchHeader]]] = {}

    def load(self, rebuild_from: int | None) -> LoadedProducers:
        end = self.log_end_offset
        snapshots = self.snapshots
        if snapshots is None:
            with storage_errors("read", self.directory):
                names = self.context.disk.list_directory(self.directory)
            self.snapshots = snapshots = ProducerSnapshots(self.context.disk, self.directory, names)
            self.state.has_transactions = any(
                name.endswith(TRANSACTION_INDEX_SUFFIX) for name in names
            )
        snapshots.remove_above(end)
        base_offsets = self.segments.base_offsets
        limit = min(end, self.high_watermark)  # what is decided above it is to be found
        start = self.start_from_snapshot(
            limit if rebuild_from is None else min(limit, rebuild_from)
        )
        ending = self.segments.floor(end - 1)
        if ending is not None and ending.base_offset < start < end and self.state.has_transactions:
            # The snapshot that is to be written says what its index has: so that is built, too.
            self.state.clear()
            start = self.start_from_snapshot(ending.base_offset)

        def on_segment(segment: LogSegment, completed: list[CompletedTransaction]) -> None:
            if start <= segment.base_offset:
                _replace_index(segment, completed)

        self.replay(start, on_segment)
        self._forget_expired()
        self.state.high_watermark_moved(limit)
        if end > base_offsets[0] and end not in snapshots.offsets:
            snapshots.write(end, self.state, self.segments)
        snapshots.remove_strays(base_offsets)
        return LoadedProducers(self.state, snapshots, self.replayed_bytes)

    def start_from_snapshot(self, limit: int) -> int:
        """Load the newest snapshot at or below `limit` that can be believed; return its offset.

        Without one that is where the log begins, and the state is empty.
        """
        first = self.segments.base_offsets[0]
        assert self.snapshots is not None
        for offset in reversed(self.snapshots.offsets):
            if not first <= offset <= limit:
                continue
            producers = self.snapshots.read(offset)
            if producers is None:
                continue
            if not self._are_of_this_log(producers, offset):
                _log.warning(
                    "producer snapshot ignored: it tells of another log",
                    path=str(self.snapshots.path(offset)),
                )
                continue
            for producer in producers:
                self.state.add_loaded(producer)
            self.state.loaded()
            return offset
        return first

    def _are_of_this_log(self, producers: list[Producer], offset: int) -> bool:
        """Whether the batches that a snapshot tells of are in the log, as far as they are kept."""
        if any(max(each.last_offset, each.txn_first_offset) >= offset for each in producers):
            return False
        newest = sorted(producers, key=lambda each: -each.last_offset)[:ENTRIES_COMPARED]
        return all(self._is_in_log(each) for each in newest if each.batches)

    def _is_in_log(self, producer: Producer) -> bool:
        last_offset = producer.last_offset
        segment = self.segments.floor(last_offset)
        if segment is None:
            return True  # it was deleted
        try:
            found = segment.translate_offset(last_offset)
            if found is None or found.offset > last_offset:
                return self.config.cleanup_policy.compacts
            header = parse_header(segment.records.read_exactly(found.position, HEADER_BYTES))
        except CorruptMessageError:
            return True  # damaged: it says nothing
        last_sequence = sequence_after(header.base_sequence, header.last_offset_delta)
        return (
            header.producer_id == producer.producer_id
            and header.last_offset == last_offset
            and header.producer_epoch == producer.epoch
            and last_sequence == producer.last_sequence
        )

    def replay(self, start: int, on_segment: OnSegment) -> None:
        """Take every batch from `start` to the log end; tell, segment by segment, what it ends."""
        for segment in self.segments.range(start, self.log_end_offset):
            if start < segment.base_offset and segment is self.segments.active:
                self._write_at_active_base(segment.base_offset)
            completed: list[CompletedTransaction] = []
            known = self.recent_batches.get(segment.base_offset)
            if known is None:
                self._replay_segment(segment, start, completed)
                self.replayed_bytes += segment.size_bytes
            else:
                self._take_all(segment, [each for each in known if each[1].last_offset >= start])
            on_segment(segment, completed)

    def _replay_segment(
        self, segment: LogSegment, start: int, completed: list[CompletedTransaction]
    ) -> None:
        recent = RecentBatches()
        for position, header in headers_from(segment, start):
            if header.base_offset >= self.log_end_offset:
                break
            if type(header) is not BatchHeader or header.producer_id < 0:
                continue
            if not recent.add(position, header):
                self._take_all(segment, recent.take())
                ended = self._take(segment, position, header)
                if ended is not None:
                    completed.append(ended)
        self._take_all(segment, recent.take())

    def _take_all(self, segment: LogSegment, batches: Iterable[tuple[int, BatchHeader]]) -> None:
        """Take batches of which none is a transaction's."""
        for position, header in batches:
            self._take(segment, position, header)

    def _take(
        self, segment: LogSegment, position: int, header: BatchHeader
    ) -> CompletedTransaction | None:
        marker = None
        if header.is_control:
            marker = marker_at(segment, position, header)
            if marker is None and header.record_count:
                return None
        batch = ProducerBatch(header, header.base_offset, marker, header.max_timestamp)
        return self.state.replay(batch)

    def _write_at_active_base(self, base_offset: int) -> None:
        """Write the snapshot that the roll should have left: a later cut goes back to it."""
        assert self.snapshots is not None
        ending = self.segments.floor(base_offset - 1)
        is_known = ending is None or ending.transaction_index.is_trusted
        if base_offset not in self.snapshots.offsets and (
            is_known or not self.state.has_transactions
        ):
            self.snapshots.write(base_offset, self.state, self.segments)

    def _forget_expired(self) -> None:
        """Find out when producers were last heard from, and forget those for whom it was long ago.

        Nothing stored tells when a batch came in: its record timestamps may be years old where
        somebody copies old data. So the later of those and of the time its segment was last written
        counts, and a restart makes nobody unknown who is writing.
        """
        now_ms = self.context.clock.now_ms()
        expiration_ms = self.context.options.producer_id_expiration_ms
        written_at: dict[int, int] = {}
        for producer in self.state.producers.values():
            heard_at = min(producer.last_timestamp, now_ms)
            segment = self.segments.floor(producer.last_offset)
            if now_ms - heard_at >= expiration_ms and segment is not None:
                base_offset = segment.base_offset
                if base_offset not in written_at:
                    written_at[base_offset] = segment.modification_time_ms()
                heard_at = max(heard_at, min(written_at[base_offset], now_ms))
            producer.heard_at_ms = heard_at
        self.state.expire(now_ms, expiration_ms)


def _replace_index(segment: LogSegment, completed: list[CompletedTransaction]) -> None:
    aborted = [each.to_aborted() for each in completed if each.is_aborted]
    try:
        changed = segment.transaction_index.replace(aborted)
    except OSError as error:
        raise StorageError(f"cannot write {segment.transaction_index.path}: {error}") from error
    if changed:
        path = str(segment.transaction_index.path)
        _log.info("transaction index rebuilt", path=path, aborted=len(aborted))


def marker_at(
    segment: LogSegment, position: int, header: BatchHeader
) -> EndTransactionMarker | None:
    """Return the marker in a control batch; None if it holds none, or cannot be decoded."""
    if header.size_bytes > CONTROL_BATCH_BYTES_MAX:
        return None
    try:
        return decode_marker(segment.records.read_exactly(position, header.size_bytes))
    except CorruptMessageError as error:
        _log.warning(
            "marker not readable", segment=repr(segment), position=position, error=str(error)
        )
        return None
