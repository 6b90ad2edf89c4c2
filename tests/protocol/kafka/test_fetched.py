"""encode_fetched: the same bytes as the codec makes of the message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.kafka.apis import APIS, ApiKey
from protocol.kafka.codec import encode_response
from protocol.kafka.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.kafka.fetched import LOG_START_FROM, encode_fetched
from tests.support.kafka_numbers import CORRELATION_IDS, IDS, INDEXES, NAMES, OFFSETS

FETCH = APIS[ApiKey.FETCH]

pieces = st.lists(st.one_of(st.binary(max_size=300), st.just(b"records")), max_size=3)


@pytest.mark.parametrize("version", range(LOG_START_FROM, FETCH.last_version + 1))
@given(
    correlation_id=CORRELATION_IDS,
    name=NAMES,
    topic_id=IDS,
    index=INDEXES,
    three=st.tuples(OFFSETS, OFFSETS, OFFSETS),
    records=pieces,
    is_committed=st.booleans(),
)
def test_given_any_numbers_and_records_when_encoded_then_the_bytes_are_those_of_the_codec(
    version: int,
    correlation_id: int,
    name: str,
    topic_id: bytes,
    index: int,
    three: tuple[int, int, int],
    records: list[bytes],
    is_committed: bool,
) -> None:
    high_watermark, last_stable_offset, log_start_offset = three
    partition = PartitionData(
        index,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        aborted_transactions=[] if is_committed else None,
        records=b"".join(records),
    )
    topic = FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[partition])
    message = FetchResponse(responses=[topic])

    made = encode_fetched(
        version, correlation_id, name, topic_id, index, three, records, is_committed=is_committed
    )

    assert b"".join(made) == b"".join(encode_response(FETCH, version, correlation_id, message))


def test_given_records_in_pieces_when_encoded_then_they_are_not_copied() -> None:
    records = [memoryview(b"a" * 1000), memoryview(b"b" * 1000)]

    made = encode_fetched(12, 1, "t", bytes(16), 0, (1, 1, 0), records, is_committed=False)

    assert [each for each in made if isinstance(each, memoryview)] == records


@pytest.mark.parametrize("version", range(LOG_START_FROM))
def test_given_a_version_without_a_log_start_offset_when_encoded_then_refused(
    version: int,
) -> None:
    with pytest.raises(ValueError, match="unpack"):
        encode_fetched(version, 1, "t", bytes(16), 0, (1, 1, 0), [], is_committed=False)
