"""What the tests of real clients share: the client, its broker, and topics of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.clients.adapters.all import CLIENTS
from tests.clients.adapters.client import BROKER_SETTING, Client
from tests.support.kafka_jars import KafkaPrograms, kafka_programs
from tests.support.running_broker import BrokerProcess


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for the tests of clients, which lets members be missed early."""
    with BrokerProcess(tmp_path_factory.mktemp("broker"), BROKER_SETTING) as running:
        yield running
        assert running.stop() == 0, running.errors.read_text()


NUMBERS = itertools.count()


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, broker: BrokerProcess) -> Client:
    """Each client in its turn, connected to the broker that all tests of a session share."""
    return CLIENTS[request.param](broker.kafka_address)


@pytest.fixture
def new_topic(client: Client) -> Callable[..., str]:
    """Make a topic that no other test knows; arguments as those of `Client.create_topic`."""

    def make(*arguments: int, **settings: str | int) -> str:
        topic = f"topic-{next(NUMBERS)}"
        client.create_topic(topic, *arguments, **settings)  # type: ignore[arg-type]
        return topic

    return make


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """Return a topic of one partition that no other test knows."""
    return new_topic()


@pytest.fixture(scope="session")
def kafka() -> KafkaPrograms:
    """Kafka's own programs; the test is skipped, loudly, where they cannot be had."""
    return kafka_programs()
