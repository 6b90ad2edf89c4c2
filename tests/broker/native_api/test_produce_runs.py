"""PRODUCEs that come in one read: appended at once, answered each, in order."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.network.answers import Answer, PendingResponse
from protocol.error_codes import ErrorCode
from protocol.native import requests
from protocol.native.responses import decode_produce_response
from protocol.record_batch import iterate_batches, iterate_records
from protocol.simple_message_set import build_set
from tests.support.native_broker import COMMIT, OS, NativeBroker, batch

ANSWER_BYTES = 26


def produce(data: bytes, *, topic: str = "logs", acks: int = 1, message_format: int = 2) -> list:
    return requests.encode_produce(topic, 0, acks, 1000, message_format, data)


def produced(answers: list[Answer]) -> list[tuple[int, ...]]:
    """All answers of a connection, in order: (error, base offset, append time, messages)."""
    whole = b""
    for answer in answers:
        if isinstance(answer, PendingResponse):
            assert answer.is_complete
            answer = answer.answer
        whole += answer if isinstance(answer, bytes) else b""
    pieces = [whole[at : at + ANSWER_BYTES] for at in range(0, len(whole), ANSWER_BYTES)]
    return [tuple(decode_produce_response(piece[4:])) for piece in pieces]


def values(broker: NativeBroker, topic: str = "logs") -> list[bytes | None]:
    data = broker.fetch(topic, 0, max_bytes=1 << 30).fetched.message_set
    return [
        record.value
        for position, _ in iterate_batches(data)
        for record in iterate_records(data, position)
    ]


def writes(broker: NativeBroker) -> int:
    return sum(
        operation.name == "write" and operation.path.suffix == ".log"
        for operation in broker.disk.operations
    )


def wrong(data: bytes) -> bytes:
    return bytes(data[:-1]) + bytes([data[-1] ^ 1])


@settings(deadline=None, max_examples=40)
@given(
    kinds=st.lists(
        st.sampled_from(["one", "two", "wrong", "old", "two batches", "elsewhere", "nowhere"]),
        min_size=1,
        max_size=9,
    ),
    acks=st.sampled_from([1, -1]),
    policy=st.sampled_from([COMMIT, OS]),
)
def test_given_any_produces_in_one_read_when_handled_then_all_is_as_if_each_came_alone(
    kinds, acks, policy
):
    def sent(kind: str, number: int) -> list:
        value = str(number).encode()
        if kind == "old":
            return produce(build_set([value], format=0), acks=acks, message_format=0)
        data = {
            "one": batch(value),
            "two": batch(value, value),
            "wrong": wrong(batch(value)),
            "two batches": batch(value) + batch(value),
        }.get(kind, batch(value))
        topic = {"elsewhere": "other", "nowhere": "not a name"}.get(kind, "logs")
        return produce(bytes(data), topic=topic, acks=acks)

    outcomes = []
    for together in (True, False):
        with NativeBroker() as broker:
            broker.create_topic("logs", settings=policy)
            broker.create_topic("other", settings=policy)
            frames = [sent(kind, number) for number, kind in enumerate(kinds)]
            if together:
                answers = broker.send_together(*frames)
            else:
                answers = [answer for each in frames for answer in broker.send_together(each)]
            metrics = broker.metrics.requests("native", "produce")
            outcomes.append(
                (
                    produced(answers), values(broker), values(broker, "other"), metrics.count,
                    metrics.latency.count, dict(metrics.errors),
                )
            )  # fmt: skip

    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0][0]) == len(kinds)


def test_given_pipelined_produces_when_handled_then_one_write_carries_them() -> None:
    with NativeBroker() as broker:
        broker.create_topic("logs", settings=OS)
        before = writes(broker)

        answers = broker.send_together(*[produce(bytes(batch(b"v")))] * 20)

        assert len(answers) == 1
        assert writes(broker) == before + 1
        assert produced(answers) == [(0, number, -1, 1) for number in range(20)]


def test_given_acks_0_when_several_come_in_one_read_then_they_are_stored_unanswered() -> None:
    with NativeBroker() as broker:
        broker.create_topic("logs", settings=OS)

        answers = broker.send_together(*[produce(bytes(batch(b"v")), acks=0)] * 3)

        assert set(answers) == {None}
        assert values(broker) == [b"v"] * 3


def test_given_a_run_that_is_not_synced_in_time_when_it_waits_then_each_gets_the_error() -> None:
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs", settings=COMMIT)
        answers = broker.send_together(*[produce(bytes(batch(b"v")), acks=-1)] * 3)
        assert len(answers) == 1
        assert not answers[0].is_complete  # type: ignore[union-attr]

        broker.loop.advance(1100)

        assert [error for error, *_ in produced(answers)] == [ErrorCode.REQUEST_TIMED_OUT] * 3
        assert broker.metrics.requests("native", "produce").errors == {
            ErrorCode.REQUEST_TIMED_OUT: 3
        }
        broker.flushes.release()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_given_a_disk_that_refuses_once_when_a_run_comes_then_one_is_refused_and_the_rest_goes_on(
    number,
) -> None:
    with NativeBroker() as broker:
        broker.create_topic("logs", settings=OS)
        broker.disk.fail("write", OSError(number, os.strerror(number)))

        answers = broker.send_together(*[produce(bytes(batch(b"v")))] * 3)

        assert [error for error, *_ in produced(answers)] == [ErrorCode.KAFKA_STORAGE_ERROR, 0, 0]
        assert broker.metrics.storage.write_failures == 1
        assert values(broker) == [b"v"] * 2
