"""Requests that change a topic, and their answers; `docs/native-protocol.md` has them in full.

    ALTER_TOPIC            topic:str16 count:i16 { key:str16 value:str16 }
    its answer             that of CREATE_TOPIC (`responses`)
    DELETE_RECORDS         topic:str16 count:i16 { partition:i32 offset:i64 }
    its answer             count:i16 { partition:i32 error:i16 log_start:i64 }

An empty value of ALTER_TOPIC puts a setting back to the broker's default. Offset -1 of
DELETE_RECORDS is the high watermark. Framing and errors are those of `requests` and `responses`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from protocol.identifiers import Buffer
from protocol.limits import INT16_MAX
from protocol.native.fields import (
    bad_frame,
    check_count,
    check_end,
    encode_settings,
    pack,
    read_settings,
    read_str16,
    str16,
    whole_request,
)
from protocol.native.request_types import RequestType

AlterTopic: TypeAlias = tuple[bytes, list[tuple[str, str]]]
"""topic, settings in the order sent; a value may be empty"""
DeleteRecords: TypeAlias = tuple[bytes, list[tuple[int, int]]]
"""topic, [(partition, offset), ...]"""

UP_TO_HIGH_WATERMARK: Final = -1
"""DELETE_RECORDS: the offset that stands for the high watermark."""

_COUNT: Final = struct.Struct(">h")
_ENTRY: Final = struct.Struct(">iq")  # partition offset
_RESULT_HEAD: Final = struct.Struct(">ihh")  # total_length error count
_ERROR_COUNT: Final = struct.Struct(">hh")
_RESULT: Final = struct.Struct(">ihq")  # partition error log_start
assert (_ENTRY.size, _RESULT.size) == (12, 14), "the text above and the structs disagree"


class DeletedRecords(NamedTuple):
    """What became of one entry of a DELETE_RECORDS."""

    partition: int
    error: int
    log_start_offset: int
    """The first offset there is, durable; -1 on error."""


# --- what the broker does ---------------------------------------------------------------------


def decode_alter_topic(frame: Buffer) -> AlterTopic:
    """Return (topic, [(key, value), ...]); a key sent twice is there twice.

    Raises:
        FrameError: sizes do not add up, or a key or value is not UTF-8.
    """
    try:
        topic, position = read_str16(frame, 2)
        (count,) = _COUNT.unpack_from(frame, position)
        settings, position = read_settings(frame, position + _COUNT.size, count)
    except struct.error:
        bad_frame("ALTER_TOPIC ends inside its fields")
    except UnicodeDecodeError:
        bad_frame("ALTER_TOPIC: a setting is not UTF-8")
    check_end(frame, position)
    return topic, settings


def decode_delete_records(frame: Buffer, entries_max: int = INT16_MAX) -> DeleteRecords:
    """Return (topic, [(partition, offset), ...]).

    Raises:
        FrameError: sizes do not add up.
        InvalidRequestError: there are more than `entries_max` entries.
    """
    try:
        topic, position = read_str16(frame, 2)
        (count,) = _COUNT.unpack_from(frame, position)
    except struct.error:
        bad_frame("DELETE_RECORDS ends inside its fields")
    position += _COUNT.size
    check_count(frame, position, count, _ENTRY.size, entries_max)
    end = position + count * _ENTRY.size
    check_end(frame, end)
    return topic, list(_ENTRY.iter_unpack(memoryview(frame)[position:end]))


def encode_delete_records_response(
    error: int, results: Sequence[tuple[int, int, int]] = ()
) -> bytes:
    """Return the whole answer; `results` as DeletedRecords, none if the request failed whole."""
    count = len(results)
    head = pack(_RESULT_HEAD, 4 + count * _RESULT.size, error, count)
    return head + b"".join([_RESULT.pack(*result) for result in results])


# --- what clients do --------------------------------------------------------------------------


def encode_alter_topic(topic: str | bytes, settings: Mapping[str, str]) -> bytes:
    """Return the request; an empty value puts a setting back to the broker's default."""
    fields = str16(topic) + pack(_COUNT, len(settings))
    return whole_request(RequestType.ALTER_TOPIC, fields, encode_settings(settings))


def encode_delete_records(topic: str | bytes, offsets: Sequence[tuple[int, int]]) -> bytes:
    """Return the request; `offsets` are (partition, offset)."""
    entries = [pack(_ENTRY, *entry) for entry in offsets]
    return whole_request(
        RequestType.DELETE_RECORDS, str16(topic), pack(_COUNT, len(entries)), *entries
    )


def decode_delete_records_response(frame: Buffer) -> tuple[int, list[DeletedRecords]]:
    """Return (error of the whole, results in the order of the request's entries).

    Raises:
        FrameError: sizes do not add up.
    """
    try:
        error, count = _ERROR_COUNT.unpack_from(frame)
    except struct.error:
        bad_frame("DELETE_RECORDS answer ends inside its fields")
    position = _ERROR_COUNT.size
    check_count(frame, position, count, _RESULT.size)
    check_end(frame, position + count * _RESULT.size)
    return error, [
        DeletedRecords._make(fields) for fields in _RESULT.iter_unpack(memoryview(frame)[position:])
    ]
