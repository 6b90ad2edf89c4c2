"""encode_acknowledgement: the same bytes as the codec makes of the message."""

from __future__ import annotations

import pytest
from hypothesis import given

from protocol.kafka.acknowledgement import LOG_START_FROM, encode_acknowledgement
from protocol.kafka.apis import APIS, ApiKey
from protocol.kafka.codec import encode_response
from protocol.kafka.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.support.kafka_numbers import CORRELATION_IDS, IDS, INDEXES, NAMES, OFFSETS

PRODUCE = APIS[ApiKey.PRODUCE]


@pytest.mark.parametrize("version", range(LOG_START_FROM, PRODUCE.last_version + 1))
@given(
    correlation_id=CORRELATION_IDS,
    name=NAMES,
    topic_id=IDS,
    index=INDEXES,
    base_offset=OFFSETS,
    log_start_offset=OFFSETS,
)
def test_given_any_numbers_when_acknowledged_then_the_bytes_are_those_of_the_codec(
    version: int,
    correlation_id: int,
    name: str,
    topic_id: bytes,
    index: int,
    base_offset: int,
    log_start_offset: int,
) -> None:
    partition = PartitionProduceResponse(
        index=index, base_offset=base_offset, log_start_offset=log_start_offset
    )
    topic = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[partition])
    message = ProduceResponse(responses=[topic])

    made = encode_acknowledgement(
        version, correlation_id, name, topic_id, index, base_offset, log_start_offset
    )

    assert made == b"".join(encode_response(PRODUCE, version, correlation_id, message))


@pytest.mark.parametrize("version", range(LOG_START_FROM))
def test_given_a_version_without_a_log_start_offset_when_acknowledged_then_refused(
    version: int,
) -> None:
    with pytest.raises(ValueError, match="unpack"):
        encode_acknowledgement(version, 1, "t", bytes(16), 0, 0, 0)
