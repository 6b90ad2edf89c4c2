"""Groups of clients: they share partitions, and go on where they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.adapters.all import CLIENTS
from tests.clients.adapters.client import BROKER_SETTING, Client, Record
from tests.clients.adapters.members import Members
from tests.support.running_broker import BrokerProcess

PARTITIONS = 6


@pytest.fixture
def members(client: Client, new_topic: Callable[..., str]) -> Iterator[Members]:
    """An empty group of a topic with six partitions and ten records in each."""
    topic = new_topic(PARTITIONS)
    for partition in range(PARTITIONS):
        client.send(topic, [Record(b"x")] * 10, partition=partition)
    name = next(name for name, each in CLIENTS.items() if isinstance(client, each))
    group = Members(name, client.address, topic, f"group-{topic}")
    yield group
    group.close()


def test_given_a_group_when_members_join_leave_and_crash_then_the_others_have_all_partitions(
    members: Members,
) -> None:
    first = members.join()
    members.wait_until_shared(first, partitions=PARTITIONS)
    members.wait_until_read(PARTITIONS * 10)

    second, third = members.join(), members.join()
    members.wait_until_shared(first, second, third, partitions=PARTITIONS)

    second.leave()
    members.wait_until_shared(first, third, partitions=PARTITIONS)

    third.kill()
    members.wait_until_shared(first, partitions=PARTITIONS)


def test_given_a_commit_when_the_group_comes_back_then_it_goes_on_there(
    client: Client, topic: str
) -> None:
    client.send(topic, [Record(b"%d" % number) for number in range(30)])

    found = [client.read_and_commit(topic, f"of-{topic}", 10) for _ in range(3)]

    assert [[offset for offset, _ in each] for each in found] == [
        list(range(start, start + 10)) for start in (0, 10, 20)
    ]


def test_given_a_group_when_an_admin_client_asks_then_it_is_told_what_the_group_has(
    client: Client, topic: str
) -> None:
    client.send(topic, [Record(b"x")] * 10)
    group = f"asked-{topic}"
    assert group not in client.groups()

    client.read_and_commit(topic, group, 4)

    assert group in client.groups()
    assert client.group_state(group) == "empty"
    assert client.committed(topic, group) == 4


def test_given_commits_when_the_broker_is_stopped_or_killed_then_each_clients_group_resumes_there(
    tmp_path: Path,
) -> None:
    def read_all(address: str) -> dict[str, list[int]]:
        return {
            name: [offset for offset, _ in make(address).read_and_commit(name, f"of-{name}", 10)]
            for name, make in CLIENTS.items()
        }

    with BrokerProcess(tmp_path, BROKER_SETTING) as broker:
        for name, make in CLIENTS.items():
            make(broker.kafka_address).create_topic(name)
            make(broker.kafka_address).send(name, [Record(b"x")] * 30)
        found = [read_all(broker.kafka_address)]
        for end in (broker.stop, broker.kill):
            end()
            broker.start()
            found.append(read_all(broker.kafka_address))

    assert found == [
        {name: list(range(start, start + 10)) for name in CLIENTS} for start in (0, 10, 20)
    ]
