"""InitProducerId without transactions: new ids, each given once."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random

import pytest

from broker.producer_ids import BLOCK
from protocol.error_codes import ErrorCode
from protocol.kafka.producer_ids import InitProducerIdRequest
from tests.support.fake_disk import FakeDisk
from tests.support.kafka_broker import KafkaBroker
from tests.support.native_broker import CLOCK_START_MS, OS
from tests.support.producers import producer_batch


def given_id(broker: KafkaBroker, version: int = 5, **had: int) -> int:
    request = InitProducerIdRequest(None, 60_000, **had)
    answer = broker.answer(request, version)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    return int(answer.producer_id)


@pytest.mark.parametrize("version", range(6))
def test_given_producers_when_they_begin_then_each_gets_an_id_of_its_own(version: int):
    with KafkaBroker() as broker:
        assert [given_id(broker, version) for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("version", [3, 5])
def test_given_a_producer_when_it_begins_anew_then_it_gets_another_id(version: int):
    """KIP-360: only transactional producers keep theirs, in a larger epoch."""
    with KafkaBroker() as broker:
        first = given_id(broker, version)

        assert given_id(broker, version, producer_id=first, producer_epoch=0) != first


@pytest.mark.parametrize("transactional_id", ["mine", ""])
def test_given_a_transactional_id_when_asked_then_it_is_refused(transactional_id: str):
    with KafkaBroker() as broker:
        answer = broker.answer(InitProducerIdRequest(transactional_id, 60_000))

        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_given_a_killed_broker_when_it_is_back_then_no_id_comes_twice(tmp_path: Path):
    disk, registry, ids = FakeDisk(), tmp_path / "registry.sqlite", []
    for _ in range(3):
        broker = KafkaBroker(disk=disk, registry=registry)
        broker.open()
        ids += [given_id(broker) for _ in range(2)]
        broker.kill()
        disk.crash(Random(len(ids)))

    assert ids == [0, 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1]


def test_given_logs_with_producers_when_the_first_id_is_given_then_it_is_above_theirs():
    with KafkaBroker() as broker:
        broker.create_topic("logs", settings=OS)
        broker.partition("logs").log.append(producer_batch(4_711, 0, timestamp=CLOCK_START_MS))

        assert given_id(broker) == 4_712


def test_given_a_registry_that_cannot_be_written_when_asked_then_it_can_be_repeated(
    monkeypatch: pytest.MonkeyPatch,
):
    with KafkaBroker() as broker:

        def fails(*_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(broker.manager.store._registry, "take_producer_ids", fails)
            answer = broker.answer(InitProducerIdRequest(None, 0))

        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
        assert given_id(broker) == 0
