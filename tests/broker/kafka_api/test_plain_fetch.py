"""Fetch of one partition by the short way: the same answers as by the long one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.kafka_api.fetch import FetchHandler
from protocol.kafka.fetch import FetchRequest
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_fetches import (
    LAST_BY_NAME,
    MANY,
    asked,
    fetch,
    fetched,
    filled,
    with_transactions,
)
from tests.support.native_broker import OS
from tests.support.producers import producer_batch

bounds = st.one_of(st.just(MANY), st.integers(-1, 400))
USUAL = {
    "offset": 0, "partition": 0, "epoch": -1, "partition_max": MANY, "whole_max": MANY,
    "min_bytes": 1, "isolation": 0, "version": LAST_BY_NAME,
}  # fmt: skip


def plain_batches(broker: KafkaBroker) -> None:
    filled(broker, 50, batches=6)


def small_segments(broker: KafkaBroker) -> None:
    broker.create_topic("logs", settings={**OS, "segment.bytes": "400"})
    for number in range(9):
        broker.partition("logs").log.append(producer_batch(5, number))


def moved_start(broker: KafkaBroker) -> None:
    plain_batches(broker)
    broker.partition("logs").log.advance_log_start(2)


@pytest.mark.parametrize("fill", [plain_batches, small_segments, moved_start, with_transactions])
@given(
    offset=st.one_of(st.integers(0, 5), st.integers(-1, 10)),
    partition=st.sampled_from([0, 0, 0, 0, 1, -1]),
    epoch=st.sampled_from([-1, -1, 0, 1]),
    partition_max=bounds,
    whole_max=bounds,
    min_bytes=st.integers(0, 300),
    isolation=st.integers(0, 1),
    version=st.integers(4, LAST_BY_NAME),
)
@example(**USUAL)
@example(**{**USUAL, "isolation": 1})
@example(**{**USUAL, "min_bytes": 120})
@example(**{**USUAL, "epoch": 1})
def test_given_any_fetch_of_one_partition_when_answered_then_both_ways_say_the_same(
    fill: Callable[[KafkaBroker], None],
    offset: int,
    partition: int,
    epoch: int,
    partition_max: int,
    whole_max: int,
    min_bytes: int,
    isolation: int,
    version: int,
):
    one = asked(partition, offset, partition_max, current_leader_epoch=epoch)
    request = fetch(one, max_bytes=whole_max, min_bytes=min_bytes, isolation_level=isolation)

    with KafkaBroker() as broker:
        fill(broker)
        short, bytes_out = said(broker, request, version)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FetchHandler, "_plain", lambda *_: None)
            long, bytes_out_again = said(broker, request, version)

    assert short == long
    assert bytes_out_again == 2 * bytes_out


def said(broker: KafkaBroker, request: FetchRequest, version: int) -> tuple[bytes, int]:
    """Return the bytes of an answer without its correlation id, and what has been sent by then."""
    frame = bytes(broker.ask(request, version).frame)
    return frame[4:], broker.partition("logs").bytes_out


def test_given_a_fetch_of_one_partition_when_there_is_enough_then_it_goes_the_short_way(
    monkeypatch: pytest.MonkeyPatch,
):
    answers: list[Any] = []
    plain = FetchHandler._plain

    def noted(*arguments: Any) -> Any:
        answers.append(plain(*arguments))
        return answers[-1]

    monkeypatch.setattr(FetchHandler, "_plain", noted)
    with KafkaBroker() as broker:
        filled(broker, 50, batches=2)

        fetched(broker, asked(0))
        fetched(broker, asked(0, 2))  # the end: nothing there

    assert [answer is not None for answer in answers] == [True, False]
