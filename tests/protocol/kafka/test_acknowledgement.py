"""encode_acknowledgement: the same bytes as the codec makes of the message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.kafka.acknowledgement import LOG_START_FROM, encode_acknowledgement
from protocol.kafka.apis import APIS, ApiKey
from protocol.kafka.codec import encode_response
from protocol.kafka.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from protocol.limits import INT32_MAX, INT64_MAX

PRODUCE = APIS[ApiKey.PRODUCE]

names = st.text("abz.-_09", min_size=1, max_size=249)
ids = st.one_of(st.binary(min_size=16, max_size=16), st.sampled_from([bytes(16), b"\xff" * 16]))
offsets = st.one_of(st.integers(0, 300), st.integers(0, INT64_MAX))


@pytest.mark.parametrize("version", range(LOG_START_FROM, PRODUCE.last_version + 1))
@given(
    correlation_id=st.integers(-INT32_MAX - 1, INT32_MAX),
    name=names,
    topic_id=ids,
    index=st.one_of(st.integers(0, 300), st.integers(0, INT32_MAX)),
    base_offset=offsets,
    log_start_offset=offsets,
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
