"""kill -9 in the middle of produce: nothing that was acknowledged is gone, again and again."""

import random

import pytest

from tests.support.command_line import call
from tests.support.native_wire import NativeWire
from tests.support.running_broker import BrokerProcess
from tests.support.writers import Writers
from tidelog.client import Client

PARTITIONS = 3
ROUNDS = 5


@pytest.mark.parametrize("settings", [{}, {"segment.bytes": "20000"}], ids=["one", "rolling"])
def test_given_produce_under_way_when_killed_then_the_acknowledged_is_there(tmp_path, settings):
    chance = random.Random(repr(settings))
    acknowledged = [{} for _ in range(PARTITIONS)]
    broker = BrokerProcess(tmp_path, "http.enabled=false")
    with broker:
        with Client(broker.address) as client:
            client.create_topic("t", PARTITIONS, settings)
        for round_number in range(ROUNDS):
            with Writers(broker.address, "t", PARTITIONS, f"round {round_number}") as writers:
                writers.wait_for(chance.randrange(1, 1000))
                broker.kill()
            broker.start()
            for writer in writers.all:
                assert writer.errors == []
                assert not writer.acknowledged.keys() & acknowledged[writer.partition].keys()
                acknowledged[writer.partition] |= writer.acknowledged

            stored = values_by_partition(broker)

            for number, values in enumerate(stored):
                kept = {offset: values[offset] for offset in acknowledged[number]}
                assert kept == acknowledged[number]
        assert broker.stop() == 0
    assert call("verify", str(broker.data_directory), "--records").code == 0
    assert all(len(found) >= ROUNDS for found in acknowledged)
    logs = list(broker.data_directory.glob("t-*/*.log"))
    assert (len(logs) > 2 * PARTITIONS) == bool(settings)  # it has rolled where it should


def values_by_partition(broker):
    """Return the values of every partition; the high watermark is where they end."""
    with NativeWire(broker.address) as wire, Client(broker.address) as client:
        found = [wire.fetch_values("t", number, format=0) for number in range(PARTITIONS)]
        (info,) = client.topics("t")
    assert [part.high_watermark for part in info.partitions] == [len(values) for values in found]
    return found
