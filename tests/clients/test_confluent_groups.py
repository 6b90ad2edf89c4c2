"""What librdkafka's groups can beside the scenarios of all clients: static members, cooperation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import monotonic

import confluent_kafka as ck
import pytest

from tests.clients.adapters.client import SESSION_MS, WAIT_S
from tests.clients.adapters.confluent import ConfluentClient
from tests.support.running_broker import BrokerProcess

PARTITIONS = 4


class Watched:
    """A consumer, and the callbacks it had: `+` and `-` with partitions."""

    def __init__(self, address: str, topic: str, **settings: str) -> None:
        self.events: list[tuple[str, list[int]]] = []
        self.consumer = ck.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": f"of-{topic}",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 300,
                **settings,
            }
        )
        self.consumer.subscribe([topic], on_assign=self._note("+"), on_revoke=self._note("-"))

    def _note(self, sign: str) -> Callable[[ck.Consumer, list[ck.TopicPartition]], None]:
        return lambda _, changed: self.events.append((sign, [each.partition for each in changed]))

    @property
    def partitions(self) -> list[int]:
        return sorted(each.partition for each in self.consumer.assignment())


def poll_until(is_so: Callable[[], bool], *members: Watched) -> None:
    deadline_s = monotonic() + WAIT_S
    while not is_so():
        assert monotonic() < deadline_s, [each.events for each in members]
        for member in members:
            member.consumer.poll(0.05)


@pytest.fixture
def topic(request: pytest.FixtureRequest, broker: BrokerProcess) -> str:
    name = f"of-{request.node.name}"
    ConfluentClient(broker.kafka_address).create_topic(name, PARTITIONS)
    return name


@pytest.fixture
def member(broker: BrokerProcess, topic: str) -> Iterator[Callable[..., Watched]]:
    with ExitStack() as stack:

        def join(**settings: str) -> Watched:
            made = Watched(broker.kafka_address, topic, **settings)
            stack.callback(made.consumer.close)
            return made

        yield join


def test_given_cooperative_members_when_one_joins_then_only_what_moves_is_given_up(
    member: Callable[..., Watched],
) -> None:
    cooperative = {"partition.assignment.strategy": "cooperative-sticky"}
    first = member(**cooperative)
    poll_until(lambda: len(first.partitions) == PARTITIONS, first)

    second = member(**cooperative)
    poll_until(lambda: len(second.partitions) == 2, first, second)

    moved = [partitions for sign, partitions in first.events if sign == "-"]
    assert [sorted(each) for each in moved] == [second.partitions]
    assert sorted(first.partitions + second.partitions) == list(range(PARTITIONS))


def test_given_static_members_when_one_comes_back_then_it_has_its_partitions_and_nobody_notices(
    member: Callable[..., Watched],
) -> None:
    first, second = (member(**{"group.instance.id": name}) for name in ("one", "two"))
    poll_until(lambda: len(first.partitions) == len(second.partitions) == 2, first, second)
    before, noticed = second.partitions, len(first.events)

    second.consumer.close()
    again = member(**{"group.instance.id": "two"})
    poll_until(lambda: again.partitions == before, first, again)

    assert len(first.events) == noticed
