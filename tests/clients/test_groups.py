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


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_given_a_commit_when_the_broker_starts_again_then_the_group_resumes_behind_it(
    tmp_path: Path, name: str, ends: str
) -> None:
    with BrokerProcess(tmp_path, BROKER_SETTING) as broker:
        client = CLIENTS[name](broker.kafka_address)
        client.create_topic("resumed")
        client.send("resumed", [Record(b"%d" % number) for number in range(20)])
        before = client.read_and_commit("resumed", "group", 7)

        getattr(broker, ends)()
        broker.start()
        again = CLIENTS[name](broker.kafka_address)
        after = again.read_and_commit("resumed", "group", 13)

    assert [offset for offset, _ in before] == list(range(7))
    assert [offset for offset, _ in after] == list(range(7, 20))
