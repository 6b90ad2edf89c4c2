"""Whatever a request of the metadata and admin APIs says, it is answered; nothing falls over."""

from __future__ import annotations

import random

import pytest

from protocol.kafka.apis import APIS, Api, ApiKey
from protocol.kafka.message import Struct
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_messages import random_message

SEEDS = range(4)
REQUESTS = 25
KEYS = (
    ApiKey.METADATA,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_RECORDS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_PRODUCERS,
)
NAMES = ("logs", "other", "__consumer_offsets", "cleanup.policy", "retention.ms", "1", "", "5")
SMALL = range(-2, 6)


def tame(message: Struct, choose: random.Random) -> None:
    """Make some of what a message says mean something: names of topics, small numbers."""
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, Struct):
                    tame(item, choose)
                elif isinstance(item, int):
                    value[index] = choose.choice(SMALL)
        elif isinstance(value, Struct):
            tame(value, choose)
        elif isinstance(value, str) and choose.random() < 0.7:
            setattr(message, name, choose.choice(NAMES))
        elif isinstance(value, int) and not isinstance(value, bool) and choose.random() < 0.7:
            setattr(message, name, choose.choice(SMALL))


@pytest.mark.parametrize("api", [APIS[key] for key in KEYS], ids=lambda api: api.key.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_given_any_request_when_sent_then_it_is_answered_and_the_connection_stays(
    api: Api, seed: int
):
    choose = random.Random(f"{api.key} {seed}")
    with KafkaBroker(settings={"limits.partitions_per_topic_max": 6}) as broker:
        broker.create_topic("logs", 2)
        broker.loop.run(broker.manager.ensure_topic("__consumer_offsets"))
        for _ in range(REQUESTS):
            version = choose.randint(api.first_version, api.last_version)
            request = random_message(api.request, version, choose)
            if choose.random() < 0.8:
                tame(request, choose)

            sent = broker.ask(request, version)

            broker.loop.advance(10)
            assert isinstance(sent.response, api.response)
            assert broker.connection.closed == []
