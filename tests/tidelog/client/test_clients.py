"""Both clients on bad days: too large, cut, late, wrong, gone and back."""

from __future__ import annotations

import asyncio
import os
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from protocol.errors import BrokerError, ErrorCode
from protocol.limits import REQUEST_ENTRIES_MAX
from protocol.native import requests, responses, topic_changes
from protocol.native.request_types import RequestType
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from tests.support.scripted_server import Script, ScriptedServer
from tidelog.client import (
    LATEST,
    AsyncClient,
    Client,
    ClientClosedError,
    ConnectionLostError,
    DamagedBatchError,
    FetchFrom,
    FetchTooLargeError,
    UnexpectedOffsetError,
)

BATCH = build_batch([Record(7, 1000, b"k", b"v"), Record(8, 1001, None, b"w")], base_offset=7)


def fetched(message_set: bytes = BATCH, error: int = 0) -> bytes:
    return b"".join(responses.message_set_send(error, [message_set]))


class BlockingCalls:
    """The blocking client behind the interface that these tests use."""

    def __init__(self, address: str, **settings: Any) -> None:
        self._client = Client(address, **settings)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return getattr(self._client, name)


class AsyncCalls:
    """The asyncio client, each call run to its end."""

    def __init__(self, address: str, **settings: Any) -> None:
        self._runner = asyncio.Runner()
        self._runner.get_loop()
        self._client = self._runner.run(self._make(address, settings))

    async def _make(self, address: str, settings: dict[str, Any]) -> AsyncClient:
        return AsyncClient(address, **settings)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._runner.run(
            getattr(self._client, name)(*args, **kwargs)
        )

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


Connect = Callable[..., Any]


@pytest.fixture(params=[BlockingCalls, AsyncCalls], ids=["blocking", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    opened: list[Any] = []
    servers: list[ScriptedServer] = []

    def connect(script: Script, **settings: Any) -> tuple[Any, ScriptedServer]:
        servers.append(ScriptedServer(script))
        opened.append(request.param(servers[-1].address, **settings))
        return opened[-1], servers[-1]

    yield connect
    for client in opened:
        client.close()
    for server in servers:
        server.stop()


def test_given_batches_when_fetched_then_messages_from_the_asked_offset_on(
    connect: Connect,
) -> None:
    client, _ = connect(lambda number, frame: fetched())

    answer = client.fetch("t", 0, 8)

    assert [(m.offset, m.timestamp_ms, m.key, m.value) for m in answer.messages] == [
        (8, 1001, None, b"w")
    ]
    assert answer.next_offset == 9


def test_given_a_cut_last_batch_when_fetched_then_the_whole_ones_come_and_it_is_next(
    connect: Connect,
) -> None:
    client, _ = connect(lambda number, frame: fetched(BATCH + BATCH[:-3]))

    answer = client.fetch("t", 0, 7)

    assert [message.offset for message in answer.messages] == [7, 8]


def test_given_an_answer_over_the_ceiling_when_read_then_refused_and_the_connection_goes_on(
    connect: Connect,
) -> None:
    large = fetched(build_batch([Record(3, 0, None, bytes(50_000))], base_offset=3))
    client, server = connect(
        lambda number, frame: large if number == 0 else fetched(), response_bytes_max=10_000
    )

    with pytest.raises(FetchTooLargeError) as raised:
        client.fetch("logs", 2, 3)
    following = client.fetch("logs", 2, 7)

    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("logs", 2, 3)
    assert raised.value.response_bytes == len(large) - 4
    assert len(following.messages) == 2
    assert server.connections == 1


def test_given_a_small_ceiling_when_fetched_then_no_more_is_asked_for_than_may_be_answered(
    connect: Connect,
) -> None:
    """Only a first batch over the ceiling is too large: many small ones come in several answers."""
    sources = [FetchFrom("t", number, 7) for number in range(3)]

    def script(number: int, frame: bytes) -> bytes:
        if number == 0:
            return fetched()
        return b"".join(responses.multi_message_set_send(0, [(0, [BATCH])] * 3))

    client, server = connect(script, response_bytes_max=10_000)

    client.fetch("t", 0, 7)
    client.multi_fetch(sources)

    assert 2 + requests.decode_fetch(server.requests[0])[3] == 10_000
    assert 2 + 3 * 6 + requests.decode_multi_fetch(server.requests[1])[0] == 10_000


def test_given_an_error_code_when_answered_then_an_exception_that_names_it(
    connect: Connect,
) -> None:
    client, _ = connect(lambda number, frame: fetched(b"", ErrorCode.OFFSET_OUT_OF_RANGE))

    with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE") as raised:
        client.fetch("t", 0, 99)

    assert raised.value.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert not raised.value.retriable


def test_given_a_lost_connection_when_a_call_only_asks_then_it_is_repeated_on_a_new_one(
    connect: Connect,
) -> None:
    client, server = connect(lambda number, frame: None if number == 0 else fetched())

    answer = client.fetch("t", 0, 7)

    assert len(answer.messages) == 2
    assert server.connections == 2


def test_given_a_lost_connection_when_a_call_changes_something_then_it_is_not_repeated(
    connect: Connect,
) -> None:
    client, server = connect(lambda number, frame: None)

    with pytest.raises(ConnectionLostError):
        client.create_topic("t")

    assert len(server.requests) == 1


def test_given_a_retriable_error_when_answered_then_asked_again_until_the_retries_are_used_up(
    connect: Connect,
) -> None:
    client, server = connect(
        lambda number, frame: fetched(b"", ErrorCode.KAFKA_STORAGE_ERROR), retries=2
    )

    with pytest.raises(BrokerError, match="KAFKA_STORAGE_ERROR"):
        client.fetch("t", 0, 7)

    assert len(server.requests) == 3


@pytest.mark.parametrize(("offsets", "sent"), [({0: 5}, 3), ({0: LATEST}, 1)])
def test_given_a_lost_connection_when_records_are_deleted_then_repeated_if_that_deletes_the_same(
    connect: Connect, offsets: dict[int, int], sent: int
) -> None:
    client, server = connect(lambda number, frame: None, retries=2)

    with pytest.raises(ConnectionLostError):
        client.delete_records("t", offsets)

    assert len(server.requests) == sent


def test_given_results_of_other_partitions_when_records_are_deleted_then_it_makes_no_sense(
    connect: Connect,
) -> None:
    answer = topic_changes.encode_delete_records_response(0, [(1, 0, 5)])
    client, _ = connect(lambda number, frame: answer, retries=0)

    with pytest.raises(ConnectionLostError):
        client.delete_records("t", {0: 5})


def test_given_more_names_or_partitions_than_one_request_takes_when_asked_then_several_are_sent(
    connect: Connect,
) -> None:
    names = [f"t{number}" for number in range(4_500)]

    def script(number: int, frame: bytes) -> bytes:
        if requests.decode_type(frame) == RequestType.TOPICS:
            asked = requests.decode_topics(frame, REQUEST_ENTRIES_MAX)
            return responses.encode_topics_response(0, [(name, 3, ()) for name in asked])
        _, entries = topic_changes.decode_delete_records(frame, REQUEST_ENTRIES_MAX)
        return topic_changes.encode_delete_records_response(
            0, [(partition, 0, offset) for partition, offset in entries]
        )

    client, server = connect(script)

    assert [info.name for info in client.topics(*names)] == names
    deleted = client.delete_records("t", dict.fromkeys(range(2001), 7))

    assert [each[1:] for each in deleted] == [(number, 0, 7) for number in range(2_001)]
    assert len(server.requests) == 3 + 2


@pytest.mark.parametrize("found_in", [0, 1])
def test_given_more_partitions_than_one_request_takes_when_fetched_then_the_wait_is_shared(
    connect: Connect, found_in: int
) -> None:
    """And is over with the first message."""
    sources = [FetchFrom("t", partition, 7) for partition in range(2_001)]
    asked: list[tuple[int, int, int, int]] = []

    def script(number: int, frame: bytes) -> bytes:
        max_bytes, min_bytes, max_wait_ms, _, entries = requests.decode_multi_fetch(
            frame, REQUEST_ENTRIES_MAX
        )
        asked.append((max_bytes, min_bytes, max_wait_ms, len(entries)))
        sets = [BATCH] if number == found_in else []
        sends = [(0, sets), *[(0, [])] * (len(entries) - 1)]
        return b"".join(responses.multi_message_set_send(0, sends))

    client, _ = connect(script)

    answers = client.multi_fetch(sources, max_bytes=1_001, max_wait_ms=90)

    assert [answer.partition for answer in answers] == list(range(2_001))
    assert [n for n, answer in enumerate(answers) if answer.messages] == [found_in * 2_000]
    assert asked == [(500, 1, 45, 2_000), (500, 1, 0 if found_in == 0 else 45, 1)]


@pytest.mark.parametrize(
    "nonsense",
    [struct.pack(">i", 1) + b"x", struct.pack(">i", -5), struct.pack(">i", 3) + b"\0\0x"],
    ids=["too short", "negative", "not an offsets answer"],
)
def test_given_an_answer_that_makes_no_sense_when_read_then_the_connection_counts_as_lost(
    connect: Connect, nonsense: bytes
) -> None:
    client, _ = connect(lambda number, frame: nonsense, retries=0)

    with pytest.raises(ConnectionLostError):
        client.offsets("t")


def test_given_a_damaged_batch_when_fetched_then_what_is_before_it_comes_and_it_is_named(
    connect: Connect,
) -> None:
    damaged = bytearray(build_batch([Record(9, 1000, None, b"z")], base_offset=9))
    damaged[-1] ^= 1
    client, _ = connect(
        lambda number, frame: fetched(bytes(BATCH + damaged)[number * len(BATCH) :])
    )

    before = client.fetch("logs", 2, 7)
    with pytest.raises(DamagedBatchError, match=r"logs-2 offset 9: .*crc") as raised:
        client.fetch("logs", 2, before.next_offset)

    assert [message.offset for message in before.messages] == [7, 8]
    assert (raised.value.partition, raised.value.offset) == (2, 9)


def test_given_nobody_listening_when_called_then_an_error_that_names_the_address(
    connect: Connect,
) -> None:
    client, server = connect(lambda number, frame: None, retries=0)
    address = server.address
    server.stop()

    with pytest.raises(ConnectionLostError, match=address):
        client.topics()


def test_given_a_late_answer_when_the_next_call_is_made_then_it_gets_its_own(
    connect: Connect,
) -> None:
    timed_out = threading.Event()

    def script(number: int, frame: bytes) -> bytes:
        if number == 0:
            timed_out.wait(10)
        return responses.encode_offsets_response(0, [number])

    client, server = connect(script, timeout_s=0.05, retries=0)

    with pytest.raises(ConnectionLostError, match="timed out"):
        client.offsets("t")
    timed_out.set()
    offsets = client.offsets("t")

    assert offsets == [1]
    assert server.connections == 2


def test_given_an_idle_connection_that_the_broker_closed_when_called_then_a_new_one_is_made() -> (
    None
):
    """Also for a call that is not repeated: it was never sent. (An event loop notices itself.)"""
    with (
        ScriptedServer(
            lambda number, frame: responses.encode_status_response(0), closes_after={0}
        ) as server,
        Client(server.address) as client,
    ):
        client.create_topic("first")
        server.connection_ended.acquire(timeout=10)
        client.create_topic("second")

        assert len(server.requests) == 2


def test_given_too_few_answers_when_several_partitions_were_asked_then_it_makes_no_sense(
    connect: Connect,
) -> None:
    client, _ = connect(
        lambda number, frame: b"".join(responses.multi_message_set_send(0, [(0, [])])), retries=0
    )

    with pytest.raises(ConnectionLostError):
        client.multi_fetch([FetchFrom("t", 0, 0), FetchFrom("t", 1, 0)])


@pytest.mark.parametrize("number", [0, 1])
def test_given_a_first_batch_that_is_cut_when_fetched_then_it_is_damage_and_not_the_end(
    connect: Connect, number: int
) -> None:
    """The broker sends the first one whole: without this it would be fetched again for ever."""
    sets = [[b""] * number + [BATCH[:-3]] + [b""] * (1 - number)]
    client, _ = connect(
        lambda _, frame: b"".join(
            responses.multi_message_set_send(0, [(0, [part]) for part in sets[0]])
        ),
        retries=0,
    )

    with pytest.raises(DamagedBatchError):
        client.multi_fetch([FetchFrom("t", 0, 7), FetchFrom("t", 1, 7)])


def test_given_a_batch_cut_behind_another_partitions_when_fetched_then_it_comes_next_time(
    connect: Connect,
) -> None:
    client, _ = connect(
        lambda number, frame: b"".join(
            responses.multi_message_set_send(0, [(0, [BATCH]), (0, [BATCH[:-3]])])
        )
    )

    first, second = client.multi_fetch([FetchFrom("t", 0, 7), FetchFrom("t", 1, 7)])

    assert first.next_offset == 9
    assert (second.messages, second.next_offset) == ([], 7)


async def test_given_a_cancelled_call_when_its_answer_comes_then_the_next_gets_its_own() -> None:
    may_answer = threading.Event()

    def script(number: int, frame: bytes) -> bytes:
        may_answer.wait(10)
        return responses.encode_offsets_response(0, [number])

    with ScriptedServer(script) as server:
        async with AsyncClient(server.address) as client:
            first, second = (asyncio.ensure_future(client.offsets("t")) for _ in range(2))
            while not server.requests:
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            may_answer.set()
            offsets = await second

    assert first.cancelled()
    assert offsets == [1]
    assert server.connections == 1


async def test_given_a_client_that_is_closed_while_it_connects_then_the_call_fails() -> None:
    with ScriptedServer(lambda number, frame: responses.encode_topics_response(0)) as server:
        client = AsyncClient(server.address)

        call = asyncio.ensure_future(client.topics())
        await asyncio.sleep(0)
        await client.close()

        with pytest.raises(ClientClosedError):
            await call


def test_given_a_fork_when_both_processes_call_then_each_has_a_connection_of_its_own() -> None:
    """Two processes on one socket would read each other's answers."""
    with (
        ScriptedServer(
            lambda number, frame: responses.encode_offsets_response(0, [number])
        ) as server,
        Client(server.address) as client,
        client.producer() as producer,
    ):
        client.offsets("t")
        child = os.fork()
        if child == 0:
            try:
                producer.produce("t", b"x", partition=0)
            except ClientClosedError:
                producer.flush()
                producer.close()
                os._exit(client.offsets("t")[0])  # the server takes this when the parent is gone
            os._exit(99)
        client.close()
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 1
    assert server.connections == 2


def test_given_append_at_elsewhere_when_answered_then_the_logs_end_is_told(
    connect: Connect,
) -> None:
    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    client, _ = connect(
        lambda number, frame: responses.encode_produce_response(out_of_order, 41, -1, 0)
    )

    with pytest.raises(UnexpectedOffsetError) as raised:
        client.append_at("t", 0, 40, BATCH)

    assert (raised.value.expected_offset, raised.value.log_end_offset) == (40, 41)


def test_given_a_producer_when_a_connection_is_lost_then_its_messages_are_sent_again() -> None:
    def script(number: int, frame: bytes) -> bytes | None:
        if number == 0:
            return None
        return responses.encode_produce_response(0, 5, -1, 2)

    with (
        ScriptedServer(script) as server,
        Client(server.address) as client,
        client.producer() as producer,
    ):
        futures = [producer.produce("t", b"%d" % number, partition=0) for number in range(2)]
        offsets = [future.result(10).offset for future in futures]

    assert offsets == [5, 6]
    assert server.connections == 2


async def test_given_an_async_producer_when_a_connection_is_lost_then_messages_are_sent_again() -> (
    None
):
    def script(number: int, frame: bytes) -> bytes | None:
        if number == 0:
            return None
        return responses.encode_produce_response(0, 5, -1, 2)

    with ScriptedServer(script) as server:
        async with AsyncClient(server.address) as client, client.producer() as producer:
            futures = [
                await producer.produce("t", b"%d" % number, partition=0) for number in range(2)
            ]
            offsets = [(await future).offset for future in futures]

    assert offsets == [5, 6]
    assert server.connections == 2


def test_given_a_full_buffer_when_produced_then_it_waits_and_everything_is_delivered() -> None:
    def script(number: int, frame: bytes) -> bytes:
        return responses.encode_produce_response(0, number, -1, 1)

    with (
        ScriptedServer(script) as server,
        Client(server.address) as client,
        client.producer(linger_s=0.0, batch_bytes_max=100, buffer_bytes_max=300) as producer,
    ):
        futures = [producer.produce("t", bytes(60), partition=0) for _ in range(50)]

    assert [future.result(0).offset for future in futures] == list(range(50))
