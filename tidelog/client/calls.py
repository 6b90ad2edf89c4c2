"""Calls: requests with what reads their answers; no I/O, shared by all clients.

A call is the parts of the request to send, and a function from the answer's frame to a value. A
connection sends the parts, reads one frame if `has_answer`, and hands it over. Error codes in
answers raise BrokerError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from protocol.errors import (
    BatchTruncatedError,
    BrokerError,
    CorruptMessageError,
    ErrorCode,
    FrameError,
)
from protocol.identifiers import Buffer
from protocol.limits import RESPONSE_BYTES_MAX
from protocol.native import requests, responses, topic_changes, transactions
from protocol.native.request_types import EARLIEST_TIME, LATEST_TIME, MessageFormat
from protocol.record_batch import check_batch, iterate_records
from protocol.record_batch_header import parse_header
from tidelog.client.errors import (
    DamagedBatchError,
    FetchTooLargeError,
    ResponseTooLargeError,
    UnexpectedOffsetError,
)
from tidelog.client.values import (
    AbortedTransaction,
    DeletedRecords,
    FetchAnswer,
    FetchFrom,
    Message,
    PartitionInfo,
    StoredBatches,
    TopicInfo,
    Transactions,
)

T = TypeVar("T")

EARLIEST = EARLIEST_TIME
LATEST = LATEST_TIME


def _too_large(response_bytes: int, response_bytes_max: int) -> ResponseTooLargeError:
    return ResponseTooLargeError(response_bytes, response_bytes_max)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, and how its answer is read."""

    parts: list[Buffer]
    parse: Callable[[memoryview], T]
    has_answer: bool = True
    is_repeatable: bool = True
    """Whether sending it again after a lost connection changes nothing."""
    too_large: Callable[[int, int], ResponseTooLargeError] = _too_large


def check(error: int, message: str = "") -> None:
    """Raise BrokerError for any code but 0."""
    if error:
        raise BrokerError(error, message)


# --- produce ----------------------------------------------------------------------------------


def produce(
    topic: str, partition: int, batches: Buffer, *, acks: int, timeout_ms: int
) -> Call[responses.ProduceResponse]:
    """Append whole record batches (format 2); the answer's error code is raised."""

    def parse(frame: memoryview) -> responses.ProduceResponse:
        answer = responses.decode_produce_response(frame)
        if answer.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            check(answer.error, f"there is no {topic}-{partition}, and producing does not make it")
        check(answer.error, f"{topic}-{partition}")
        return answer

    parts = requests.encode_produce(
        topic, partition, acks, timeout_ms, MessageFormat.RECORD_BATCH, batches
    )
    return Call(parts, parse, has_answer=acks != 0, is_repeatable=False)


def append_at(
    topic: str, partition: int, batches: Buffer, *, expected_offset: int, timeout_ms: int
) -> Call[responses.ProduceResponse]:
    """Append record batches only if the log ends at `expected_offset`, synced like acks=all.

    Repeating it after a lost answer cannot append twice: the second finds the log moved on.
    """

    def parse(frame: memoryview) -> responses.ProduceResponse:
        answer = responses.decode_produce_response(frame)
        if answer.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise UnexpectedOffsetError(expected_offset, answer.base_offset)
        check(answer.error, f"{topic}-{partition}")
        return answer

    parts = requests.encode_append_at(
        expected_offset, topic, partition, -1, timeout_ms, MessageFormat.RECORD_BATCH, batches
    )
    return Call(parts, parse, is_repeatable=False)


# --- fetch ------------------------------------------------------------------------------------


def fetch(
    source: FetchFrom,
    *,
    min_bytes: int = 1,
    max_wait_ms: int = 0,
    response_bytes_max: int = RESPONSE_BYTES_MAX,
) -> Call[FetchAnswer]:
    """Fetch from one partition; an error code is raised."""

    def parse(frame: memoryview) -> FetchAnswer:
        answer = read_fetch(source, responses.decode_message_set_send(frame))
        answer.raise_for_error()
        return answer

    return _fetch(source, parse, min_bytes, max_wait_ms, response_bytes_max)


def fetch_batches(
    source: FetchFrom,
    *,
    min_bytes: int = 1,
    max_wait_ms: int = 0,
    response_bytes_max: int = RESPONSE_BYTES_MAX,
) -> Call[StoredBatches]:
    """Fetch from one partition what is stored, undecoded; an error code is raised."""

    def parse(frame: memoryview) -> StoredBatches:
        send = responses.decode_message_set_send(frame)
        check(send.error, f"{source.topic}-{source.partition}")
        return read_batches(source, send.message_set)

    return _fetch(source, parse, min_bytes, max_wait_ms, response_bytes_max)


def _fetch(
    source: FetchFrom,
    parse: Callable[[memoryview], T],
    min_bytes: int,
    max_wait_ms: int,
    response_bytes_max: int,
) -> Call[T]:
    request = requests.encode_fetch(
        source.topic,
        source.partition,
        source.offset,
        _within(response_bytes_max, source.max_bytes, 0),
        min_bytes,
        max_wait_ms,
        MessageFormat.RECORD_BATCH,
    )
    return Call([request], parse, too_large=_fetch_too_large([source]))


def multi_fetch(
    sources: Sequence[FetchFrom],
    *,
    max_bytes: int,
    min_bytes: int = 1,
    max_wait_ms: int = 0,
    response_bytes_max: int = RESPONSE_BYTES_MAX,
) -> Call[list[FetchAnswer]]:
    """Fetch from several partitions; each answer carries its own error code."""

    def parse(frame: memoryview) -> list[FetchAnswer]:
        error, sends = responses.decode_multi_message_set_send(frame)
        check(error)
        if len(sends) != len(sources):
            raise FrameError(f"{len(sends)} answers to {len(sources)} partitions")
        answers: list[FetchAnswer] = []
        may_cut = False
        for source, send in zip(sources, sends, strict=True):
            answers.append(read_fetch(source, send, may_cut_first=may_cut))
            may_cut = may_cut or len(send.message_set) > 0
        return answers

    max_bytes = _within(response_bytes_max, max_bytes, len(sources))
    request = requests.encode_multi_fetch(
        max_bytes, min_bytes, max_wait_ms, MessageFormat.RECORD_BATCH, sources
    )
    return Call([request], parse, too_large=_fetch_too_large(sources))


def _within(response_bytes_max: int, max_bytes: int, sends: int) -> int:
    """Return how many bytes of sets to ask for, so that the answer stays below what is buffered."""
    overhead_bytes = 2 + sends * responses.MESSAGE_SET_SEND_HEADER_BYTES
    return min(max_bytes, max(1, response_bytes_max - overhead_bytes))


def _fetch_too_large(
    sources: Sequence[FetchFrom],
) -> Callable[[int, int], ResponseTooLargeError]:
    first = sources[0] if sources else FetchFrom("", -1, -1)

    def too_large(response_bytes: int, response_bytes_max: int) -> ResponseTooLargeError:
        return FetchTooLargeError(
            response_bytes, response_bytes_max, first.topic, first.partition, first.offset
        )

    return too_large


def read_fetch(
    source: FetchFrom, send: responses.MessageSetSend, *, may_cut_first: bool = False
) -> FetchAnswer:
    """Decode the batches of one partition: checked, from the asked offset on, no control records.

    A batch that `max_bytes` has cut is left for the next fetch.

    Args:
        may_cut_first: Other partitions came before. The first batch of an answer is whole, whatever
            its size: one that is cut has a damaged length, and would be fetched for ever.

    Raises:
        DamagedBatchError: the first batch is damaged; a later one is left for the next fetch.
    """
    topic, partition, asked = source.topic, source.partition, source.offset
    messages: list[Message] = []
    next_offset, position, view = asked, 0, send.message_set
    while not send.error and position < len(view):
        try:
            header = check_batch(view, position)
            records = [] if header.is_control else list(iterate_records(view, position))
        except CorruptMessageError as error:
            if position or (may_cut_first and isinstance(error, BatchTruncatedError)):
                break
            raise DamagedBatchError(
                position, error.reason, topic, partition, next_offset
            ) from error
        messages += [
            Message(topic, partition, *record) for record in records if record.offset >= asked
        ]
        next_offset = max(next_offset, header.next_offset)
        position += header.size_bytes
    return FetchAnswer(topic, partition, send.error, messages, next_offset)


def read_batches(source: FetchFrom, message_set: memoryview) -> StoredBatches:
    """Find the whole batches of an answer by their headers; what they hold is not checked.

    Raises:
        DamagedBatchError: the first header cannot be, or its batch is cut. What comes later and
            cannot be is left for the next fetch.
    """
    position, next_offset = 0, source.offset
    while position < len(message_set):
        try:
            header = parse_header(message_set, position)
            if position + header.size_bytes > len(message_set):
                raise BatchTruncatedError(position, "body")
        except CorruptMessageError as error:
            if position:
                break
            raise DamagedBatchError(
                position, error.reason, source.topic, source.partition, next_offset
            ) from error
        next_offset = max(next_offset, header.next_offset)
        position += header.size_bytes
    return StoredBatches(source.topic, source.partition, message_set[:position], next_offset)


# --- offsets and topics -------------------------------------------------------------------------


def offsets(topic: str, partition: int, time: int, max_offsets: int = 1) -> Call[list[int]]:
    """Ask for offsets: `time` in ms, LATEST (the high watermark) or EARLIEST (the log start)."""

    def parse(frame: memoryview) -> list[int]:
        error, found = responses.decode_offsets_response(frame)
        check(error, f"{topic}-{partition}")
        return found

    return Call([requests.encode_offsets(topic, partition, time, max_offsets)], parse)


def aborted(topic: str, partition: int, start: int, end: int) -> Call[Transactions]:
    """Ask what of a partition's transactions a read of some offsets has to know.

    Not more than `transactions.ABORTED_MAX` come at once.
    """

    def parse(frame: memoryview) -> Transactions:
        answer = transactions.decode_transactions_response(frame)
        check(answer.error, f"{topic}-{partition}")
        return Transactions(
            answer.last_stable_offset, [AbortedTransaction(*each) for each in answer.aborted]
        )

    return Call([transactions.encode_transactions(topic, partition, start, end)], parse)


def topics(names: Sequence[str] = ()) -> Call[list[TopicInfo]]:
    """Ask what topics there are; no names means all. A topic's error stays in its entry."""

    def parse(frame: memoryview) -> list[TopicInfo]:
        error, found = responses.decode_topics_response(frame)
        check(error)
        return [
            TopicInfo(
                name.decode("utf-8", "replace"),
                topic_error,
                tuple(PartitionInfo(*partition) for partition in partitions),
            )
            for name, topic_error, partitions in found
        ]

    return Call([requests.encode_topics(names)], parse)


def create_topic(
    name: str, partitions: int, settings: Mapping[str, str] | None = None
) -> Call[None]:
    """Make a topic."""
    return Call(
        [requests.encode_create_topic(name, partitions, settings)],
        _parse_status,
        is_repeatable=False,
    )


def alter_topic(name: str, settings: Mapping[str, str | None]) -> Call[None]:
    """Change settings of a topic; None puts one back to the broker's default."""
    changes = {key: value or "" for key, value in settings.items()}
    return Call([topic_changes.encode_alter_topic(name, changes)], _parse_status)


def delete_topic(name: str) -> Call[None]:
    """Remove a topic and its data."""
    return Call([requests.encode_delete_topic(name)], _parse_status, is_repeatable=False)


def delete_records(topic: str, offsets: Mapping[int, int]) -> Call[list[DeletedRecords]]:
    """Move log starts forward; `offsets` by partition, LATEST up to the high watermark."""

    def parse(frame: memoryview) -> list[DeletedRecords]:
        error, results = topic_changes.decode_delete_records_response(frame)
        check(error, topic)
        if [each.partition for each in results] != list(offsets):
            raise FrameError("the answer is not about the partitions that were named")
        return [DeletedRecords(topic, *each) for each in results]

    request = topic_changes.encode_delete_records(topic, list(offsets.items()))
    # A second LATEST could be a later one.
    return Call([request], parse, is_repeatable=LATEST not in offsets.values())


def _parse_status(frame: memoryview) -> None:
    check(*responses.decode_status_response(frame))
