"""`partition.metadata`, and the text form of Kafka's UUIDs in it."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import StoredFormatError
from protocol.stored.kafka_uuid import decode_uuid, encode_uuid
from protocol.stored.partition_metadata import decode, encode
from tests.support.damage import any_bytes, error_of

KAFKAS = b"version: 0\ntopic_id: bjJloU19R7qRqxc7hoqoTA"  # as Apache Kafka 4.3.0 wrote it


def test_given_kafkas_file_when_decoded_then_its_topic_id_comes_out() -> None:
    topic_id = decode(KAFKAS)

    assert topic_id == UUID("6e3265a1-4d7d-47ba-91ab-173b868aa84c")
    assert encode(topic_id) == KAFKAS


def test_given_a_newline_at_the_end_when_decoded_then_it_does_not_matter() -> None:
    assert decode(KAFKAS + b"\n") == decode(KAFKAS)


@given(topic_id=st.uuids())
def test_given_any_topic_id_when_encoded_and_decoded_then_the_same(topic_id: UUID) -> None:
    assert decode(encode(topic_id)) == topic_id
    assert len(encode_uuid(topic_id)) == 22


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version: 0\n",
        b"version: 1\ntopic_id: bjJloU19R7qRqxc7hoqoTA",
        b"topic_id: bjJloU19R7qRqxc7hoqoTA\nversion: 0",
        b"version: 0\ntopic_id:bjJloU19R7qRqxc7hoqoTA",
        b"version: 0\ntopic_id: bjJloU19R7qRqxc7hoqoT",
        b"version: 0\ntopic_id: bjJloU19R7qRqxc7hoqoTA==",
        b"version: 0\ntopic_id: bjJloU19R7qRqxc7hoqoTB",  # stray bits at the end
        b"version: 0\ntopic_id: bjJloU19R7qRqxc7hoqo+A",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        KAFKAS + b"\nx",
        b"\xff",
    ],
)
def test_given_a_malformed_file_when_decoded_then_refused(data: bytes) -> None:
    with pytest.raises(StoredFormatError):
        decode(data)


@given(text=st.text(max_size=24))
def test_given_any_text_when_read_as_uuid_then_it_is_that_uuids_only_text(text: str) -> None:
    try:
        value = decode_uuid(text)
    except StoredFormatError:
        return

    assert encode_uuid(value) == text


@given(data=any_bytes(st.just(KAFKAS)))
def test_given_any_bytes_when_decoded_then_an_id_or_our_error(data: bytes) -> None:
    error = error_of(decode, data)

    assert error is None or isinstance(error, StoredFormatError)
