"""TRANSACTIONS: the last stable offset, and which transactions were aborted (R36)."""

from __future__ import annotations

import pytest

from broker.native_api import transactions as handler
from protocol.native import topic_changes
from protocol.native.transactions import Aborted, encode_transactions
from tests.support.native_broker import OS, NativeBroker, batch
from tests.support.producers import end_transaction, send_in_transaction


@pytest.fixture
def broker():
    """Offsets 0 and 2 of producer 7 are aborted at 3; 1 of 8 at 5; 4 of 9 is undecided."""
    with NativeBroker() as broker:
        broker.create_topic("logs", 1, OS)
        log = broker.partition("logs").log
        send_in_transaction(log, 7, 0)
        send_in_transaction(log, 8, 0)
        send_in_transaction(log, 7, 1)
        end_transaction(log, 7, commit=False)
        send_in_transaction(log, 9, 0)
        end_transaction(log, 8, commit=False)
        yield broker


def ask(broker: NativeBroker, start: int, end: int) -> tuple[int, list[Aborted]]:
    error, *told = broker.send(encode_transactions("logs", 0, start, end)).transactions
    assert error == 0
    return tuple(told)


@pytest.mark.parametrize(
    ("start", "end", "aborted"),
    [
        (0, 0, []),
        (0, 1, [(7, 0, 3)]),
        (0, 4, [(7, 0, 3), (8, 1, 5)]),
        (4, 4, [(8, 1, 5)]),
        (6, 4, []),
    ],
)
def test_given_aborted_and_undecided_transactions_when_asked_then_those_of_the_offsets_are_told(
    broker, start, end, aborted
):
    assert ask(broker, start, end) == (4, aborted)


def test_given_more_than_an_answer_has_when_asked_behind_the_last_then_the_others_come(
    broker, monkeypatch
):
    monkeypatch.setattr(handler, "ABORTED_MAX", 1)

    assert [ask(broker, start, 4)[1] for start in (0, 4, 6)] == [[(7, 0, 3)], [(8, 1, 5)], []]


def test_given_a_log_start_that_moved_when_asked_from_before_it_then_all_behind_it_is_told(broker):
    broker.send(topic_changes.encode_delete_records("logs", [(0, 4)]))

    assert ask(broker, 0, 5) == (4, [(8, 1, 5)])


def test_given_no_transactions_when_asked_then_all_that_is_committed_is_stable():
    with NativeBroker() as broker:
        broker.create_topic("logs")
        broker.produce("logs", batch(b"a", b"b"))

        assert ask(broker, 0, 2) == (2, [])
