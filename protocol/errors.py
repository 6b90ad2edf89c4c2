"""What can go wrong: one exception class for each decision that a caller can take.

Every class carries the `code` that both protocols put on the wire for it. Fields are given to the
base class as plain arguments too, so that the errors pickle (worker processes send them home).
"""

from __future__ import annotations

from typing import ClassVar

from protocol.error_codes import ErrorCode

__all__ = [
    "BatchCorruptError",
    "BatchTruncatedError",
    "BrokerError",
    "ConfigError",
    "CorruptMessageError",
    "DataDirectoryError",
    "ErrorCode",
    "FrameError",
    "FrameTooLargeError",
    "IndexFullError",
    "InvalidConfigError",
    "InvalidPartitionsError",
    "InvalidProducerEpochError",
    "InvalidRecordError",
    "InvalidRequestError",
    "InvalidRequiredAcksError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "InvalidTransactionStateError",
    "MessageTooLargeError",
    "OffsetOutOfRangeError",
    "OutOfOrderSequenceError",
    "RecordListTooLargeError",
    "RequestTimedOutError",
    "StorageError",
    "StoredFormatError",
    "TidelogError",
    "TooManyProducersError",
    "TopicAlreadyExistsError",
    "TransactionCoordinatorFencedError",
    "UnknownTopicOrPartitionError",
    "UnsupportedCompressionError",
    "UnsupportedForMessageFormatError",
]


class TidelogError(Exception):
    """The root of all errors that Tidelog raises on purpose."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


# --- bytes ------------------------------------------------------------------------------------


class CorruptMessageError(TidelogError):
    """Damaged bytes. Do not retry, do not skip: report `position`."""

    code = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position, self.reason = position, reason

    def __str__(self) -> str:
        return f"corrupt message at byte {self.position}: {self.reason}"


class BatchCorruptError(CorruptMessageError):
    """The bytes of a batch or message set are all there and are wrong. Never normal."""


class BatchTruncatedError(CorruptMessageError):
    """The bytes end inside a batch or entry. Normal at a log's tail and at a fetch's end only."""


class InvalidRecordError(TidelogError):
    """Well-formed bytes that the topic's rules or the format's own rules refuse."""

    code = ErrorCode.INVALID_RECORD


class InvalidTimestampError(TidelogError):
    """A timestamp further from the broker's clock than the topic allows."""

    code = ErrorCode.INVALID_TIMESTAMP


class MessageTooLargeError(TidelogError):
    """A message or batch over the topic's `max_message_bytes`. Nothing was written."""

    code = ErrorCode.MESSAGE_TOO_LARGE

    def __init__(self, size_bytes: int, size_bytes_max: int) -> None:
        super().__init__(size_bytes, size_bytes_max)
        self.size_bytes, self.size_bytes_max = size_bytes, size_bytes_max

    def __str__(self) -> str:
        return f"a message of {self.size_bytes} bytes is over the limit of {self.size_bytes_max}"


class RecordListTooLargeError(MessageTooLargeError):
    """A batch that no segment of the topic could hold."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class UnsupportedCompressionError(TidelogError):
    """A codec number that the format does not define, or that is not allowed here."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class UnsupportedForMessageFormatError(TidelogError):
    """A message format that this request cannot carry."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class StoredFormatError(TidelogError):
    """A small file (index, checkpoint, snapshot, ...) does not parse. It is a hint: rebuild it."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


# --- requests ---------------------------------------------------------------------------------


class FrameError(TidelogError):
    """A frame that cannot be parsed. The connection it came on is closed, nothing else."""

    code = ErrorCode.INVALID_REQUEST


class FrameTooLargeError(FrameError):
    """A frame longer than the reader's limit, noticed before any of it was buffered."""

    def __init__(self, frame_bytes: int, frame_bytes_max: int) -> None:
        super().__init__(frame_bytes, frame_bytes_max)
        self.frame_bytes, self.frame_bytes_max = frame_bytes, frame_bytes_max

    def __str__(self) -> str:
        return f"a frame of {self.frame_bytes} bytes is outside 2 to {self.frame_bytes_max}"


class InvalidRequestError(TidelogError):
    """A field of a request is out of its range, or fields contradict each other."""

    code = ErrorCode.INVALID_REQUEST


class InvalidRequiredAcksError(TidelogError):
    """acks is none of -1, 0 and 1."""

    code = ErrorCode.INVALID_REQUIRED_ACKS


class RequestTimedOutError(TidelogError):
    """The time allowed ran out. What was appended stays appended."""

    code = ErrorCode.REQUEST_TIMED_OUT


class UnknownTopicOrPartitionError(TidelogError):
    """No such topic, or no such partition of it."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class InvalidTopicError(TidelogError):
    """An illegal topic name, or an internal topic that clients may not touch."""

    code = ErrorCode.INVALID_TOPIC


class TopicAlreadyExistsError(TidelogError):
    """A topic of that name exists."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitionsError(TidelogError):
    """A partition count that is not between 1 and the limit."""

    code = ErrorCode.INVALID_PARTITIONS


class InvalidConfigError(TidelogError):
    """A topic setting that is unknown or whose value is not allowed."""

    code = ErrorCode.INVALID_CONFIG


class OffsetOutOfRangeError(TidelogError):
    """An offset below the log start or above the log end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(offset, log_start_offset, log_end_offset)
        self.offset = offset
        self.log_start_offset, self.log_end_offset = log_start_offset, log_end_offset

    def __str__(self) -> str:
        return f"offset {self.offset} is outside {self.log_start_offset} to {self.log_end_offset}"


class OutOfOrderSequenceError(TidelogError):
    """A sequence number, or an expected offset, that is not the next one."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(TidelogError):
    """A batch or marker of an older epoch than its producer's: another one has taken its place."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTransactionStateError(TidelogError):
    """A batch outside of a transaction, of a producer that has one open."""

    code = ErrorCode.INVALID_TXN_STATE


class TransactionCoordinatorFencedError(TidelogError):
    """A marker of a coordinator that another one has followed."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class TooManyProducersError(TidelogError):
    """A partition knows as many producers as it may, all with open transactions. Retry later."""

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


# --- the broker itself ------------------------------------------------------------------------


class StorageError(TidelogError):
    """The disk failed a write or a read, or the log is closed or failed. Others go on.

    `errno` is the system's number for the reason, or None where the disk is not to blame.
    """

    code = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, message: str = "", errno: int | None = None) -> None:
        super().__init__(message, errno)
        self.message, self.errno = message, errno

    def __str__(self) -> str:
        return self.message


class IndexFullError(TidelogError):
    """An index has no room for another entry: roll the segment first."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class DataDirectoryError(TidelogError):
    """A data directory that cannot be used: missing, locked by another broker, or too new."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class ConfigError(TidelogError):
    """A configuration that cannot be used; `path` names the key, the text how to mend it."""

    code = ErrorCode.INVALID_CONFIG

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path, self.problem = path, problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class BrokerError(TidelogError):
    """An error code that came back over the wire, for clients; `code` is the broker's."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(code, message)
        try:
            self.error_code = ErrorCode(code)
        except ValueError:
            self.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        self.number, self.message = code, message

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.error_code.retriable

    def __str__(self) -> str:
        text = self.message or self.error_code.text
        return f"{self.error_code.name} ({self.number}): {text}"
