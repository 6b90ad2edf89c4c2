"""encode_part: an answer made piece by piece is the same bytes as one made at once."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.kafka.apis import APIS, ApiKey
from protocol.kafka.codec import encode_part, encode_response
from protocol.kafka.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

METADATA = APIS[ApiKey.METADATA]


@pytest.mark.parametrize("version", range(14))
def test_given_parts_of_a_list_when_encoded_before_then_the_whole_is_the_same(version: int):
    partitions = [
        MetadataResponsePartition(0, number, 1, 5, [1] * number, [1], []) for number in range(3)
    ]
    topics = [MetadataResponseTopic(0, name, bytes(16), False, partitions) for name in "abc"]
    whole = MetadataResponse(0, [MetadataResponseBroker(1, "localhost", 9092)], "id", 1, topics)
    expected = b"".join(encode_response(METADATA, version, 7, whole))

    pieces: list[Any] = [encode_part(METADATA, version, topic) for topic in topics]
    for given in (pieces, [pieces[0], topics[1], pieces[2]]):
        made = MetadataResponse(0, whole.brokers, "id", 1, given)

        assert b"".join(encode_response(METADATA, version, 7, made)) == expected
