"""What a producer knows of topics, and that it goes on with that while nobody answers."""

from __future__ import annotations

import pytest

from protocol.errors import BrokerError, ErrorCode
from protocol.native.responses import (
    PartitionDescription,
    TopicDescription,
    encode_produce_response,
    encode_topics_response,
)
from tests.support.scripted_server import ScriptedServer
from tidelog.client import AsyncClient, Client
from tidelog.client.topic_cache import REFRESH_S, TopicCache
from tidelog.client.values import PartitionInfo, TopicInfo

PRODUCED = encode_produce_response(0, 5, -1, 1)
DESCRIBED = encode_topics_response(
    0, [TopicDescription(b"t", 0, [PartitionDescription(0, 0, 0, 0, 0)])]
)


def topic(partitions: int, error: int = 0) -> list[TopicInfo]:
    return [TopicInfo("t", error, tuple(PartitionInfo(n, 0, 0, 0, 0) for n in range(partitions)))]


def test_given_an_answer_when_a_minute_has_passed_then_it_is_asked_again() -> None:
    cache = TopicCache()

    cache.learn("t", topic(3), 100.0)

    assert cache.question("t", 100.0 + REFRESH_S - 1) is None
    assert cache.question("t", 100.0 + REFRESH_S + 1) is not None


def test_given_no_such_topic_when_learnt_then_it_is_asked_again_soon() -> None:
    cache = TopicCache()

    cache.learn("t", topic(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 100.0)

    assert cache.partition("t", b"any key") == 0
    assert cache.question("t", 100.0) is None  # not for each message of a burst
    assert cache.question("t", 100.1) is not None


def test_given_another_error_when_learnt_then_it_is_raised() -> None:
    with pytest.raises(BrokerError, match="INVALID_TOPIC"):
        TopicCache().learn("t", topic(0, ErrorCode.INVALID_TOPIC), 100.0)


def test_given_no_answer_when_something_is_known_then_it_is_used_for_a_while() -> None:
    cache = TopicCache()
    cache.learn("t", topic(1), 100.0)

    kept, kept_unknown = cache.keep("t", 500.0), cache.keep("other", 500.0)

    assert kept
    assert not kept_unknown
    assert cache.question("t", 500.5) is None
    assert cache.question("t", 502.0) is not None


def flaky(number: int, frame: bytes) -> bytes | None:
    """Close the first connection, then describe the topic, then take what is produced."""
    return (None, DESCRIBED, PRODUCED)[number]


def test_given_a_lost_connection_when_a_topic_is_asked_for_then_it_is_asked_again() -> None:
    with (
        ScriptedServer(flaky) as server,
        Client(server.address) as client,
        client.producer() as producer,
    ):
        delivery = producer.produce("t", b"a").result()

    assert delivery.offset == 5


async def test_given_a_lost_connection_when_asked_asynchronously_then_it_is_asked_again() -> None:
    with ScriptedServer(flaky) as server:
        async with AsyncClient(server.address) as client:
            async with client.producer() as producer:
                delivered = await producer.produce("t", b"a")
            delivery = await delivered

    assert delivery.offset == 5
