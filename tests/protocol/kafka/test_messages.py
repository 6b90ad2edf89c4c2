"""Every message in every version, against two other implementations of it, and against fuzzing."""

from __future__ import annotations

import random

import pytest

from protocol.errors import FrameError
from protocol.kafka import codec
from protocol.kafka.apis import Api
from protocol.limits import MESSAGE_ELEMENTS_MAX
from tests.support.kafka_messages import (
    PLACES,
    again_by_kafka_python,
    again_by_kio,
    place_id,
    random_message,
)

MESSAGES = 6
MUTATIONS = 40


def bodies(api: Api, version: int, seed: int, count: int):
    """(class, message, body) of requests and responses."""
    choose = random.Random(f"{api.key}-{version}-{seed}")
    for _ in range(count):
        request = random_message(api.request, version, choose)
        frame = codec.encode_request(api, version, 7, "me", request)
        header = codec.decode_header(memoryview(frame)[4:])
        yield api.request, request, frame[4 + header.body_position :]
        response = random_message(api.response, version, choose)
        frame = b"".join(codec.encode_response(api, version, 7, response))
        flexible = api.is_flexible(version) and api.key.name != "API_VERSIONS"
        yield api.response, response, frame[9 if flexible else 8 :]


@pytest.mark.parametrize(("api", "version"), PLACES, ids=place_id)
def test_given_a_message_when_written_and_read_then_it_is_the_same(api: Api, version: int) -> None:
    for structure, message, body in bodies(api, version, 1, MESSAGES):
        is_request = structure is api.request
        frame = memoryview(b"\0\0\0\7" + b"\0" * api.is_flexible(version) + body)
        if is_request:
            read = codec.decode_request(api, version, memoryview(body), 0)
        elif api.key.name == "API_VERSIONS":
            _, read = codec.decode_response(api, version, memoryview(b"\0\0\0\7" + body))
        else:
            _, read = codec.decode_response(api, version, frame)
        assert read == message


@pytest.mark.parametrize(("api", "version"), PLACES, ids=place_id)
def test_given_a_message_when_others_read_and_write_it_then_the_same_bytes(
    api: Api, version: int
) -> None:
    for structure, message, body in bodies(api, version, 2, MESSAGES):
        if structure.__name__ != "ApiVersionsResponse" or message.error_code == 0:
            assert again_by_kafka_python(structure, version, body) == body, message
        assert again_by_kio(structure, version, body) == body, message


@pytest.mark.parametrize(("api", "version"), PLACES, ids=place_id)
def test_given_a_mutated_request_when_read_then_a_message_or_our_error(
    api: Api, version: int
) -> None:
    choose = random.Random(f"{api.key}-{version}-mutations")
    for structure, _, body in bodies(api, version, 3, 4):
        if structure is not api.request or not body:
            continue
        for _ in range(MUTATIONS):
            mutated = bytearray(body)
            for _ in range(choose.randint(1, 4)):
                position = choose.randrange(len(mutated))
                mutated[position] = choose.choice([0, 1, 0x7F, 0x80, 0xFF, choose.randrange(256)])
            del mutated[choose.choice([len(mutated), choose.randrange(len(mutated) + 1)]) :]
            try:
                read = codec.decode_request(api, version, memoryview(mutated), 0)
            except FrameError:
                continue
            assert type(read) is api.request


def test_given_trailing_bytes_and_unknown_tagged_fields_when_read_then_ignored() -> None:
    """Trap 1 of the protocol: librdkafka leaves bytes behind, and new clients add tags."""
    api = next(api for api, _ in PLACES if api.key.name == "METADATA")
    message = api.request(topics=None)
    body = codec.encode_request(api, 12, 7, None, message)[4 + 8 + 2 + 1 :]
    assert body.endswith(b"\0")
    tagged = body[:-1] + b"\2" + b"\x05\3abc" + b"\x85\1\0"

    for sent in (body + b"\1\0\0", tagged):
        assert codec.decode_request(api, 12, memoryview(sent), 0) == message


@pytest.mark.parametrize("is_nested", [False, True])
def test_given_more_elements_than_any_message_needs_when_read_then_refused_before_they_are_made(
    is_nested: bool,
) -> None:
    """A frame of 100 MB could hold fifty million: the bound is on all arrays together."""
    api = next(api for api, _ in PLACES if api.key.name == "FETCH")
    per_topic = 10 if is_nested else 1
    topics = [(b"\0\1t" + (per_topic).to_bytes(4, "big") + bytes(16) * per_topic)] * (
        MESSAGE_ELEMENTS_MAX // 11 if is_nested else MESSAGE_ELEMENTS_MAX // 2
    )
    head = bytes(4 + 4 + 4 + 4 + 1)

    def read(count: int) -> None:
        body = head + count.to_bytes(4, "big") + b"".join(topics[:1] * count)
        codec.decode_request(api, 4, memoryview(body), 0)

    read(len(topics))
    with pytest.raises(FrameError, match="count is not possible"):
        read(len(topics) + 1)
