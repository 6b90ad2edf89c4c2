"""Requests as no honest client writes them: refused, or read as Kafka reads them, and cheaply."""

from __future__ import annotations

import struct

import pytest

from protocol.errors import FrameError
from protocol.kafka import codec
from protocol.kafka.api_versions import ApiVersionsRequest
from protocol.kafka.apis import APIS, ApiKey
from protocol.kafka.fetch import FetchRequest
from protocol.kafka.metadata import MetadataRequest
from protocol.limits import MESSAGE_ELEMENTS_MAX
from protocol.varint import encode_unsigned_varint

API_VERSIONS, FETCH = APIS[ApiKey.API_VERSIONS], APIS[ApiKey.FETCH]
METADATA, HEARTBEAT = APIS[ApiKey.METADATA], APIS[ApiKey.HEARTBEAT]
LOG_DIRS = APIS[ApiKey.DESCRIBE_LOG_DIRS]
NOBODY = b"\1\1"
"""ApiVersions: a client without name and version."""
FETCH_FIELDS = bytes(4 + 4 + 4 + 1 + 4 + 4) + b"\1\1\1"
"""Fetch from version 15 on: numbers, no topics, none forgotten, no rack."""
UNKNOWN_TAG = b"\x55\0"


def read(api, version, body):
    return codec.decode_request(api, version, memoryview(body), 0)


def header(size: int, client_id: bytes, behind: bytes = b"") -> memoryview:
    return memoryview(struct.pack(">hhih", 3, 12, 7, size) + client_id + behind)


# --- tagged fields ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [(API_VERSIONS, 3, NOBODY), (FETCH, 15, FETCH_FIELDS)],
    ids=["unknown alone", "beside known"],
)
def test_given_tagged_fields_without_end_when_read_then_refused_before_they_are_looked_at(
    api, version, fields
) -> None:
    """Kafka's CVE-2026-111115: a frame of 100 MB has room for fifty million of two bytes each."""

    def with_tags(count: int) -> bytes:
        return fields + encode_unsigned_varint(count) + UNKNOWN_TAG * count

    read(api, version, with_tags(MESSAGE_ELEMENTS_MAX))
    with pytest.raises(FrameError, match="count is not possible"):
        read(api, version, with_tags(MESSAGE_ELEMENTS_MAX + 1))


def test_given_tagged_fields_in_all_structs_when_read_then_they_count_together() -> None:
    def topics(count: int) -> bytes:
        topic = bytes(16) + b"\2t" + b"\1" + UNKNOWN_TAG
        return encode_unsigned_varint(count + 1) + topic * count + b"\1\0\0"

    assert len(read(METADATA, 12, topics(MESSAGE_ELEMENTS_MAX // 2)).topics) > 1
    with pytest.raises(FrameError, match="count is not possible"):
        read(METADATA, 12, topics(MESSAGE_ELEMENTS_MAX // 2 + 1))


def test_given_a_known_tagged_field_twice_when_read_then_the_last_one_counts() -> None:
    body = FETCH_FIELDS + b"\3" + b"\0\2\2a" + UNKNOWN_TAG + b"\0\2\2b"

    assert read(FETCH, 15, body).cluster_id == "b"


def test_given_a_known_tagged_field_with_more_in_it_when_read_then_that_is_skipped() -> None:
    body = FETCH_FIELDS + b"\2" + b"\0\4\2axx" + b"\1\x0d" + b"\0\0\0\5" + bytes(8) + b"\0"

    request = read(FETCH, 15, body)

    assert request.cluster_id == "a"
    assert request.replica_state is not None
    assert request.replica_state.replica_id == 5


@pytest.mark.parametrize(
    "tags",
    [
        b"\1\0\1\2a",  # its value ends behind it
        b"\1\0\x7f\2a",  # it ends behind the message
        b"\1\x55\x7fa",  # so does one that nobody knows
        b"\2\x55\0",  # there is one less
        b"",  # not even their number
    ],
)
def test_given_a_tagged_field_that_does_not_fit_when_read_then_refused(tags: bytes) -> None:
    for api, version, fields in ((FETCH, 15, FETCH_FIELDS), (API_VERSIONS, 3, NOBODY)):
        if api is FETCH or tags != b"\1\0\1\2a":  # nobody looks into what is not known
            with pytest.raises(FrameError):
                read(api, version, fields + tags)


# --- lengths, null and text --------------------------------------------------------------------


def test_given_a_length_in_more_bytes_than_it_needs_when_read_then_it_is_the_same() -> None:
    assert read(API_VERSIONS, 3, b"\x82\x80\0a\1\0") == ApiVersionsRequest("a", "")
    with pytest.raises(FrameError, match="5 bytes"):
        read(API_VERSIONS, 3, b"\x82\x80\x80\x80\x80\0a\1\0")


def test_given_null_and_empty_when_read_then_they_are_told_apart() -> None:
    assert read(METADATA, 1, b"\xff\xff\xff\xff").topics is None
    assert read(METADATA, 1, b"\0\0\0\0").topics == []
    assert read(METADATA, 12, b"\0\1\0\0").topics is None
    assert read(METADATA, 12, b"\1\1\0\0").topics == []


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [
        (METADATA, 0, b"\xff\xff\xff\xff"),  # a null array
        (METADATA, 1, b"\xff\xff\xff\xfe"),  # a count below it
        (METADATA, 1, b"\x7f\xff\xff\xff"),
        (HEARTBEAT, 0, b"\xff\xff" + bytes(6)),  # a null string
        (HEARTBEAT, 3, b"\0\0" + bytes(6) + b"\xff\xfe"),
        (HEARTBEAT, 4, b"\0" + bytes(4) + b"\1\0\0"),
        (HEARTBEAT, 0, b"\0\2\xff\xfe" + bytes(6)),  # no UTF-8
        (HEARTBEAT, 0, b"\0\7ab"),
        (HEARTBEAT, 0, b"\0\1g" + bytes(4) + b"\0\5abcd"),  # the last field is cut
    ],
)
def test_given_null_or_a_length_that_cannot_be_when_read_then_refused(api, version, body) -> None:
    with pytest.raises(FrameError):
        read(api, version, body)


def test_given_a_count_that_the_bytes_cannot_hold_when_read_then_refused_at_once() -> None:
    for api, version, body in (
        (METADATA, 1, struct.pack(">i", 20_000) + bytes(2 * 19_999)),
        (LOG_DIRS, 1, b"\0\0\0\1\0\1t" + struct.pack(">i", 20_000) + bytes(4 * 19_999)),
    ):
        with pytest.raises(FrameError, match="count is not possible"):
            read(api, version, body)


def test_given_numbers_without_end_when_read_then_they_count_too() -> None:
    def numbers(count: int) -> bytes:
        return b"\0\0\0\1\0\1t" + struct.pack(">i", count) + bytes(4 * count)

    assert read(LOG_DIRS, 1, numbers(MESSAGE_ELEMENTS_MAX - 1)).topics is not None
    with pytest.raises(FrameError, match="count is not possible"):
        read(LOG_DIRS, 1, numbers(MESSAGE_ELEMENTS_MAX))


def test_given_a_list_that_is_not_in_a_version_when_read_then_each_message_has_its_own() -> None:
    first, second = (read(FETCH, 4, bytes(4 + 4 + 4 + 4 + 1 + 4)) for _ in range(2))

    assert first.forgotten_topics_data == []
    assert first.forgotten_topics_data is not second.forgotten_topics_data


# --- headers -----------------------------------------------------------------------------------


def test_given_a_client_id_of_any_kind_when_read_then_it_is_text_or_none() -> None:
    assert codec.decode_header(header(-1, b"", b"\0")).client_id is None
    assert codec.decode_header(header(0, b"", b"\0")).client_id == ""
    found = codec.decode_header(header(3, b"a\xffb", b"\2\x55\0\x56\1xbody"))
    assert found.client_id == "a\ufffdb"
    assert found.correlation_id == 7
    assert found.body_position == 10 + 3 + 6


@pytest.mark.parametrize(
    "frame",
    [
        header(-2, b"", b"\0"),
        header(5, b"abc"),
        struct.pack(">hhih", 3, 0, 7, 5) + b"abc",  # a version without tagged fields
        header(-1, b""),
        header(-1, b"", b"\x11" + UNKNOWN_TAG * 17),
        b"\0\3",
    ],
)
def test_given_a_header_that_cannot_be_when_read_then_refused(frame) -> None:
    with pytest.raises(FrameError):
        codec.decode_header(memoryview(frame))


@pytest.mark.parametrize(("key", "version"), [(3, 14), (3, -1), (999, 12)])
def test_given_what_is_not_served_when_the_header_is_read_then_nothing_is_looked_for_behind_it(
    key: int, version: int
) -> None:
    frame = struct.pack(">hhih", key, version, -5, 1) + b"a" + b"\xff" * 9

    expected = codec.RequestHeader(key, version, -5, "a", 11)
    assert codec.decode_header(memoryview(frame)) == expected


def test_given_defaults_when_fields_are_not_in_a_version_then_they_are_those_of_kafka() -> None:
    assert read(METADATA, 0, bytes(4)) == MetadataRequest(allow_auto_topic_creation=True)
    fetch = read(FETCH, 4, bytes(4 + 4 + 4 + 4 + 1 + 4))
    assert (fetch.session_id, fetch.session_epoch, fetch.rack_id) == (0, -1, "")
    assert FetchRequest().max_bytes == 2**31 - 1
