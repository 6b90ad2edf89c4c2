"""Loading groups: what is asked for meanwhile, damage, transactions, Kafka's own log."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from broker.coordinator.group import Group
from broker.coordinator.group_loader import GroupLoader
from broker.coordinator.offsets_topic import OFFSETS_TOPIC
from broker.steps import run_to_end
from broker.storage.append_origin import AppendOrigin
from protocol.end_transaction_marker import EndTransactionMarker, build_marker_batch
from protocol.error_codes import ErrorCode as E
from protocol.kafka.group_admin import DeleteGroupsRequest, ListGroupsRequest
from protocol.kafka.group_membership import HeartbeatRequest
from protocol.kafka.group_offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.record_batch_builder import build_batch
from protocol.stored.group_records import (
    OffsetCommitValue,
    encode_offset_commit,
    encode_offset_key,
)
from tests.support.group_broker import GROUP, GroupBroker
from tests.support.group_restarts import Machine, end
from tests.support.native_broker import CLOCK_START_MS


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_given_a_group_whose_members_left_when_loaded_then_it_is_empty_in_its_generation(machine):
    broker = machine.broker()
    broker.create_topic("logs", 1)
    broker.leave(broker.member())
    end(broker, "kill")

    again = machine.loaded()
    joined = again.join(version=0).response

    assert joined.generation_id == 3
    again.close()


def test_given_more_members_than_may_be_when_loaded_then_a_rebalance(machine):
    broker = machine.broker()
    first = broker.join().response.member_id
    second = broker.join().response.member_id
    broker.join(first)
    broker.join(second)
    broker.sync(first, 1, {first: b"a", second: b"b"})
    end(broker, "kill")

    again = machine.loaded(settings={"groups.group_max_size": 1})

    assert again.heartbeat(first, 1) == E.REBALANCE_IN_PROGRESS
    assert again.join(second).is_waiting
    assert again.join(first).response.error_code == E.GROUP_MAX_SIZE_REACHED
    again.close()


def test_given_groups_that_are_being_loaded_when_asked_for_then_later_and_not_as_empty(machine):
    broker = machine.broker()
    broker.create_topic("logs", 1)
    member = broker.member()
    broker.commit({0: 3}, member_id=member, generation_id_or_member_epoch=1)
    end(broker, "kill")

    again = machine.broker()
    loading = E.COORDINATOR_LOAD_IN_PROGRESS
    beat = again.ask(HeartbeatRequest(GROUP, 1, member), settle=False).response
    fetched = again.ask(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)]), settle=False
    ).response
    old = again.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 7, settle=False).response
    listed = again.ask(ListGroupsRequest(), settle=False).response
    commit = again.commit({0: 4}, settle=False).response.topics[0].partitions[0]
    deleted = again.ask(DeleteGroupsRequest([GROUP]), settle=False).response.results[0]

    # A heartbeat is taken for granted: clients do not expect to hear of loading there.
    assert (beat.error_code, listed.error_code, old.error_code) == (E.NONE, loading, loading)
    assert fetched.groups[0].error_code == loading
    assert (commit.error_code, deleted.error_code) == (loading, loading)
    again.loop.settle()
    assert again.heartbeat(member, 1) == E.NONE
    assert again.committed(0) == [3]
    again.close()


def test_given_a_partition_that_cannot_be_read_when_loaded_then_its_groups_are_not_empty(machine):
    broker = machine.broker(settings={"groups.offsets_topic_partitions": 1})
    broker.create_topic("logs", 1)
    broker.commit({0: 3})
    end(broker, "stop")

    again = machine.broker()
    again.manager.partitions_by_topic[OFFSETS_TOPIC.encode()][0] = None
    again.kafka.coordinator.begin()
    again.loop.settle()

    assert again.commit_errors({0: 4}) == [E.COORDINATOR_NOT_AVAILABLE]
    assert again.answer(ListGroupsRequest()).error_code == E.COORDINATOR_NOT_AVAILABLE
    again.kill()


def test_given_many_records_when_loaded_then_in_steps_and_the_last_of_each_key(machine):
    broker = machine.broker(settings={"groups.offsets_topic_partitions": 1})
    broker.create_topic("logs", 50)
    for first in range(20):
        broker.commit({number: number + first for number in range(50)})
    log = broker.manager.partition(OFFSETS_TOPIC, 0).log

    loader = GroupLoader(log)
    steps = sum(1 for _ in loader.steps())
    (group,) = loader.groups()

    assert steps >= 1_000 // 50
    assert loader.records == 1_000
    assert {place[1]: each.offset for place, each in group.offsets.items()} == {
        number: number + 19 for number in range(50)
    }
    broker.close()


# --- topics that were deleted ---------------------------------------------------------------------


@pytest.mark.parametrize("is_made_again", [False, True])
def test_given_offsets_without_topic_ids_when_their_topic_changes_while_loading_then_none_hold(
    machine, is_made_again
):
    broker = machine.broker(settings={"groups.offsets_topic_partitions": 1})
    broker.create_topic("logs", 1)
    broker.create_topic("other", 1)
    broker.find()
    log = broker.manager.partition(OFFSETS_TOPIC, 0).log
    value = encode_offset_commit(OffsetCommitValue(offset=7, commit_timestamp=CLOCK_START_MS))
    keys = [encode_offset_key(GROUP, topic, 0) for topic in ("logs", "other")]
    records = [(number, CLOCK_START_MS, key, value) for number, key in enumerate(keys)]
    log.append(memoryview(bytearray(build_batch(records))), origin=AppendOrigin.COORDINATOR)
    broker.loop.settle()
    end(broker, "kill")

    again = machine.broker()
    again.kafka.coordinator.begin()
    entry = again.manager.store.entries.pop("logs")
    if is_made_again:
        again.manager.store.entries["logs"] = msgspec.structs.replace(entry, topic_id=uuid4())
    again.loop.settle()

    assert again.committed(0) == [-1]
    assert again.committed(0, topic="other") == [7]
    again.close()


# --- transactions, of a Kafka whose log it was ----------------------------------------------------


def transactional(offset: int, *, producer_id: int) -> bytes:
    key = encode_offset_key(GROUP, "logs", producer_id)
    value = encode_offset_commit(OffsetCommitValue(offset=offset, commit_timestamp=1))
    return build_batch(
        [(0, CLOCK_START_MS, key, value)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def marker(*, producer_id: int, is_commit: bool) -> bytes:
    return build_marker_batch(
        EndTransactionMarker(is_commit, 0, CLOCK_START_MS),
        producer_id=producer_id,
        producer_epoch=0,
    )


def test_given_transactions_when_loaded_then_committed_ones_hold(machine):
    broker = machine.broker(settings={"groups.offsets_topic_partitions": 1})
    broker.create_topic("logs", 4)
    broker.commit({3: 1})
    log = broker.manager.partition(OFFSETS_TOPIC, 0).log
    batches = [transactional(offset=10 + number, producer_id=number) for number in range(3)]
    batches += [marker(producer_id=0, is_commit=True), marker(producer_id=1, is_commit=False)]
    for batch in batches:
        log.append(memoryview(bytearray(batch)), origin=AppendOrigin.REPLICATION)
    broker.loop.settle()

    loader = GroupLoader(log)
    run_to_end(loader.steps())
    (group,) = loader.groups()

    assert {place[1]: each.offset for place, each in group.offsets.items()} == {0: 10, 3: 1}
    broker.kill()


# --- Kafka's own log ------------------------------------------------------------------------------


def groups_in(broker: GroupBroker, number: int) -> list[Group]:
    """What a partition says, whatever topics there are."""
    loader = GroupLoader(broker.manager.partition(OFFSETS_TOPIC, number).log)
    run_to_end(loader.steps())
    return list(loader.groups())


def test_given_the_log_of_a_kafka_when_loaded_then_the_groups_that_it_had(machine):
    """What Kafka's own admin client read of them is written out here."""
    directory = Path(__file__).resolve().parents[2] / "data" / "kafka-groups"
    broker = machine.broker(settings={"groups.offsets_topic_partitions": 2})
    broker.find()
    broker.loop.settle()
    for number in range(2):
        stored = bytearray((directory / f"{OFFSETS_TOPIC}-{number}.log").read_bytes())
        log = broker.manager.partition(OFFSETS_TOPIC, number).log
        log.append(memoryview(stored), origin=AppendOrigin.REPLICATION)
    broker.loop.settle()
    loaded = [group for number in range(2) for group in groups_in(broker, number)]
    end(broker, "kill")
    again = machine.loaded()

    found = {
        group.group_id: {
            f"{topic}-{partition}": (each.offset, each.metadata)
            for (topic, partition), each in group.offsets.items()
        }
        for group in loaded
    }

    of_both = {"codecs-1": (5, ""), "rolled-0": (33, "with metadata ä\0"), "rolled-1": (20, "")}
    assert found == {
        "group-admin": {"codecs-2": (11, ""), "codecs-3": (12, "")},
        "group-classic": of_both,
        "group-kip848": of_both,
        "group-txn": {"codecs-0": (17, "in a transaction"), "txn-1": (3, "in a transaction")},
    }
    described = again.described("group-classic")
    assert (described.group_state, described.protocol_type) == ("Empty", "consumer")
    assert again.kafka.coordinator.groups.get("group-classic").generation == 2
    again.close()


def test_given_damage_in_the_log_when_loaded_then_the_rest_is_and_nobody_is_locked_out(machine):
    broker = machine.broker(settings={"groups.offsets_topic_partitions": 1})
    broker.create_topic("logs", 4)
    for number in range(4):
        broker.commit({number: number + 1})
    path = Path("/data") / f"{OFFSETS_TOPIC}-0" / f"{0:020}.log"
    size = machine.disk.file_size(path) // 4
    end(broker, "stop")
    file = machine.disk.open(path)
    (sound,) = file.read(1, 2 * size - 3)
    file.write([bytes([sound ^ 0xFF])], 2 * size - 3)
    file.sync()
    file.close()

    again = machine.loaded()

    assert again.committed(0, 1, 2, 3) == [1, -1, 3, 4]
    assert again.commit_errors({1: 7}) == [E.NONE]
    assert again.committed(1) == [7]
    again.kill()
