"""ProduceEntries: appends any sets for any partitions, whatever it takes, and answers.

The long way of PRODUCE, and the way of MULTIPRODUCE and APPEND_AT: several entries, formats 0 and
1, expected offsets, topics that must be created first, whatever is wrong.

Nothing of a set is appended before all of it was found right. A set that is converted over several
loop turns is appended in one, so its offsets are consecutive, and an expected offset is compared in
the very turn of the append, whatever others did in the turns before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from broker.network.answers import Answer, Parts, PendingResponse
from broker.requests.conversion import to_record_batches
from broker.steps import Job, Steps
from protocol.error_codes import ErrorCode
from protocol.errors import (
    InvalidRequestError,
    OutOfOrderSequenceError,
    StorageError,
    TidelogError,
)
from protocol.identifiers import Buffer
from protocol.native.request_types import ACKS_NONE, ACKS_WRITTEN, MessageFormat
from protocol.native.responses import encode_multi_produce_response, encode_produce_response

if TYPE_CHECKING:
    from broker.metrics import RequestMetrics
    from broker.network.connection import Connection
    from broker.partition import Partition
    from broker.requests.protocol_api import ProtocolApi

RECORD_BATCH: Final = int(MessageFormat.RECORD_BATCH)

ENTRIES_PER_STEP: Final = 100
"""Appending so many small sets takes a millisecond or two."""


class Entry(NamedTuple):
    """One set to be appended."""

    topic: bytes
    partition: int
    message_format: int
    message_set: Buffer
    expected_offset: int | None = None


class Outcome(NamedTuple):
    """What became of an entry; the first four as in the answer."""

    error: int
    base_offset: int = -1
    append_time_ms: int = -1
    message_count: int = 0
    partition: Partition | None = None
    """Where it was appended; None with an error."""
    message: str | None = None
    """What is wrong, for protocols that say so."""


Outcomes: TypeAlias = list[Outcome]


class Request(NamedTuple):
    """What the entries of one request have in common."""

    acks: int
    timeout_ms: int
    encode: Callable[[Sequence[Outcome]], Parts]
    connection: Connection
    metrics: RequestMetrics
    started_s: float
    may_create_topics: bool = True
    refused: Sequence[Outcome] = ()
    """Of what was not even made an entry; their answers are with `encode`."""


class ProduceEntries:
    """Appends entries; one for all connections."""

    __slots__ = (
        "_clock", "_decompressed_bytes_max", "_manager", "_monotonic", "_partitions", "_runner",
        "_storage_metrics",
    )  # fmt: skip

    def __init__(self, api: ProtocolApi) -> None:
        self._storage_metrics = api.metrics.storage
        self._manager, self._runner = api.manager, api.runner
        self._clock, self._monotonic = api.clock, api.monotonic
        self._decompressed_bytes_max = api.limits.decompressed_bytes_max
        self._partitions = api.manager.writable_partitions_by_topic

    def append(self, entries: Sequence[Entry], request: Request) -> Answer:
        if not -1 <= request.acks <= 1:
            refused = [Outcome(ErrorCode.INVALID_REQUIRED_ACKS)] * len(entries)
            return self.acknowledge(refused, request)
        missing = {entry.topic for entry in entries if entry.topic not in self._partitions}
        creatable = [
            topic
            for topic in missing
            if request.may_create_topics and self._manager.can_auto_create(topic)
        ]
        has_simple = any(entry.message_format != RECORD_BATCH for entry in entries)
        if creatable or (has_simple and len(entries) > 1) or len(entries) > ENTRIES_PER_STEP:
            # The frame is valid during this call only, and this may take longer.
            entries = [e._replace(message_set=bytearray(e.message_set)) for e in entries]
        if creatable:
            pending = PendingResponse(pauses_reading=True)
            work = self._create_and_append(creatable, entries, request, pending)
            self._runner.spawn(work, request.connection)
            return pending
        steps = self._append_steps(entries, {})
        try:
            job = next(steps)
        except StopIteration as stop:
            return self.acknowledge(stop.value, request)
        pending = PendingResponse(pauses_reading=True)
        self._runner.spawn(self._append_later(steps, job, request, pending), request.connection)
        return pending

    async def _create_and_append(
        self,
        topics: Sequence[bytes],
        entries: Sequence[Entry],
        request: Request,
        pending: PendingResponse,
    ) -> None:
        errors: dict[bytes, ErrorCode] = {}
        for topic in topics:
            try:
                await self._manager.ensure_topic(topic.decode("ascii"))
            except TidelogError as error:
                errors[topic] = error.code
        await self._append_later(self._append_steps(entries, errors), None, request, pending)

    async def _append_later(
        self, steps: Steps[Outcomes], job: Job | None, request: Request, pending: PendingResponse
    ) -> None:
        # Whether the client is still there does not matter: it sent the request whole.
        outcomes = await self._runner.finish(steps, job)
        answer = self.acknowledge(outcomes, request, pending)
        if answer is not pending:
            assert not isinstance(answer, PendingResponse)
            request.metrics.latency.observe(self._monotonic() - request.started_s)
            pending.complete(answer)

    def _append_steps(
        self, entries: Sequence[Entry], errors: dict[bytes, ErrorCode]
    ) -> Steps[Outcomes]:
        outcomes: Outcomes = []
        for count, entry in enumerate(entries, 1):
            if entry.topic in errors:
                outcomes.append(Outcome(errors[entry.topic]))
            else:
                outcomes.append((yield from self._append_entry(entry)))
            if not count % ENTRIES_PER_STEP and count < len(entries):
                yield None
        return outcomes

    def _append_entry(self, entry: Entry) -> Steps[Outcome]:
        """Append one set, converted first if need be; errors come out as outcomes."""
        partition: Partition | None = None
        try:
            if not 0 <= entry.message_format <= RECORD_BATCH:
                raise InvalidRequestError(f"there is no message format {entry.message_format}")
            partition = self._manager.writable_partition(entry.topic, entry.partition)
            if entry.message_format == RECORD_BATCH:
                batches = memoryview(entry.message_set)
            else:
                batches = memoryview((yield from self._converted(entry, partition)))
                # The topic may have gone, and another one come, in the turns between.
                partition = self._manager.writable_partition(entry.topic, entry.partition)
            log = partition.log
            first_offset = log.log_end_offset
            if entry.expected_offset is None and (count := log.appender.append_plain(batches)):
                partition.bytes_in += len(batches)
                partition.messages_in += count
                return Outcome(0, first_offset, -1, count, partition)
            info = log.append(batches, expected_offset=entry.expected_offset)
        except OutOfOrderSequenceError as error:
            assert partition is not None, "only a log says this"
            if entry.expected_offset in (None, partition.log.log_end_offset):
                return self.refused(error)  # a producer's sequence is not the next one
            return Outcome(error.code, partition.log.log_end_offset)
        except TidelogError as error:
            return self.refused(error)
        if not info.is_duplicate:
            partition.bytes_in += info.valid_bytes
            partition.messages_in += info.message_count
        return Outcome(0, info.first_offset, info.append_time_ms, info.message_count, partition)

    def _converted(self, entry: Entry, partition: Partition) -> Steps[bytearray]:
        config = partition.log.config
        converted = yield from to_record_batches(
            bytes(entry.message_set),
            entry.message_format,
            message_bytes_max=config.max_message_bytes,
            compression_type=config.compression_type,
            timestamp_ms=self._clock.now_ms(),
            decompressed_bytes_max=self._decompressed_bytes_max,
        )
        return converted.batches

    # --- the answer -----------------------------------------------------------------------------

    def acknowledge(
        self, outcomes: Outcomes, request: Request, pending: PendingResponse | None = None
    ) -> Answer:
        """Answer now, or return `pending` (or a new one), complete once all is committed."""
        failed = [each.error for each in (*outcomes, *request.refused) if each.error]
        for error in failed:
            request.metrics.errors[error] += 1
        if request.acks == ACKS_NONE:
            if failed:  # the only way to tell a client that wants no answers
                request.connection.close("produce_failed", detail=ErrorCode(failed[0]).name)
            return None
        if request.acks == ACKS_WRITTEN:
            return request.encode(outcomes)
        waiting = [
            (index, outcome.partition, outcome.base_offset + outcome.message_count)
            for index, outcome in enumerate(outcomes)
            if outcome.partition is not None
            and outcome.partition.log.high_watermark < outcome.base_offset + outcome.message_count
        ]
        if not waiting:
            return request.encode(outcomes)
        pending = pending or PendingResponse()
        wait = _CommitWait(outcomes, len(waiting), request, pending, self._monotonic)
        deadline_s = self._monotonic() + request.timeout_ms / 1000
        for index, partition, end_offset in waiting:
            partition.when_committed(end_offset, deadline_s, partial(wait.decided, index))
        return pending

    def refused(self, error: TidelogError) -> Outcome:
        if isinstance(error, StorageError) and error.errno is not None:
            self._storage_metrics.write_failures += 1
        return Outcome(error.code, message=None if isinstance(error, StorageError) else str(error))


class _CommitWait:
    """The entries of one request that wait for their partitions' high watermarks."""

    __slots__ = ("_left", "_monotonic", "_outcomes", "_pending", "_request")

    def __init__(
        self,
        outcomes: Outcomes,
        waiting: int,
        request: Request,
        pending: PendingResponse,
        monotonic: Callable[[], float],
    ) -> None:
        self._outcomes, self._left = outcomes, waiting
        self._request, self._pending, self._monotonic = request, pending, monotonic

    def decided(self, index: int, error: ErrorCode) -> None:
        """Take the fate of one entry; the last one answers the request."""
        request = self._request
        if error:
            self._outcomes[index] = Outcome(error)
            request.metrics.errors[error] += 1
        self._left -= 1
        if not self._left:
            request.metrics.latency.observe(self._monotonic() - request.started_s)
            self._pending.complete(request.encode(self._outcomes))


def encode_single(outcomes: Sequence[Outcome]) -> bytes:
    """Return the answer to a PRODUCE or APPEND_AT."""
    error, base_offset, append_time_ms, message_count = outcomes[0][:4]
    return encode_produce_response(error, base_offset, append_time_ms, message_count)


def encode_multi(outcomes: Sequence[Outcome]) -> bytes:
    """Return the answer to a MULTIPRODUCE."""
    return encode_multi_produce_response(0, [outcome[:4] for outcome in outcomes])
