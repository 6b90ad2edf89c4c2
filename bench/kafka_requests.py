"""Requests of the Kafka protocol built beforehand, to either server: many small, and one wide.

Small: 100 connections, each with one record of 200 B a request, acks=all, one in flight.
Wide: a fetch of 1,000 partitions, each with a batch of 1 KB.
"""

from __future__ import annotations

import statistics
import struct
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from bench import frames, generators
from bench.processes import Server
from bench.table import Table
from protocol.kafka import codec
from protocol.kafka.apis import APIS, ApiKey
from protocol.kafka.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.kafka.message import Struct
from protocol.kafka.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.kafka.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.kafka.topic_changes import CreatableTopic, CreateTopicsRequest

ROUNDS: Final = 3
CONNECTIONS: Final = 100
PARTITIONS: Final = 1_000
PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
METADATA_VERSION: Final = 9
CREATE_VERSION: Final = 5
DEADLINE_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 8 << 20
PARTITION_BYTES: Final = 1_100
"""No more than a batch of each, however often they had to be sent until all were there."""


class Peer(Protocol):
    """A server, and where it speaks the Kafka protocol."""

    @property
    def server(self) -> Server: ...
    @property
    def port(self) -> int: ...


def run(table: Table, ours: Peer, theirs: Peer | None, scale: float) -> None:
    peers = [ours] if theirs is None else [ours, theirs]
    _compare(table, "100 connections, 200 B a request, acks=all", peers, _small(scale))
    _compare(table, "fetches of 1,000 partitions, 1 KB each", peers, _wide(scale))


def _compare(
    table: Table, name: str, peers: list[Peer], drive: Callable[[Peer], tuple[int, float]]
) -> None:
    """Let the servers take turns; a row for the requests a second, and one for their CPU."""
    runs: list[list[tuple[float, float]]] = [[] for _ in peers]
    for _ in range(ROUNDS):
        for figures, peer in zip(runs, peers, strict=True):
            before_s = peer.server.cpu_seconds()
            requests, seconds = drive(peer)
            cpu_s = peer.server.cpu_seconds() - before_s
            figures.append((requests / seconds, cpu_s / requests * 1e6))
    medians = [
        [statistics.median(column) for column in zip(*figures, strict=True)] for figures in runs
    ]
    rates = [f"{rate:,.0f}/s" for rate, _ in medians] + [""]
    cpu = [f"{each:.0f} CPU us a request" for _, each in medians] + [""]
    ratios = [medians[0][n] / medians[1][n] if medians[1:] else None for n in range(2)]
    table.add(name, rates[0], rates[1], ratio=ratios[0])
    table.add(f"{name}: CPU", cpu[0], cpu[1], ratio=ratios[1])


def _small(scale: float) -> Callable[[Peer], tuple[int, float]]:
    requests = max(2_000, int(100_000 * scale))
    frame = _produce_frame("small", {0: frames.batch(1, 200)})

    def drive(peer: Peer) -> tuple[int, float]:
        _make_topic(peer.port, "small", 1)
        answer_bytes = 4 + len(_ask(peer.port, frame))
        done = generators.closed_loop(peer.port, [frame] * CONNECTIONS, answer_bytes, requests)
        return done.requests, done.seconds

    return drive


def _wide(scale: float) -> Callable[[Peer], tuple[int, float]]:
    requests = max(20, int(400 * scale))
    produced = _produce_frame("wide", dict.fromkeys(range(PARTITIONS), frames.batch(1, 950)))
    partitions = [
        FetchPartition(partition=n, partition_max_bytes=PARTITION_BYTES) for n in range(PARTITIONS)
    ]
    message = FetchRequest(
        max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic="wide", partitions=partitions)]
    )
    frame = _frame(ApiKey.FETCH, FETCH_VERSION, message)
    filled: set[int] = set()

    def drive(peer: Peer) -> tuple[int, float]:
        if peer.port not in filled:
            filled.add(peer.port)
            _make_topic(peer.port, "wide", PARTITIONS)
            _ask_until(peer.port, produced, _is_produced)
            _ask_until(peer.port, frame, _is_whole)
        done, _ = generators.stream(peer.port, [frame], requests, 2)
        return done.requests, done.seconds

    return drive


def _produce_frame(topic: str, batches: dict[int, bytes]) -> bytes:
    data = [PartitionProduceData(index=n, records=each) for n, each in batches.items()]
    message = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    return _frame(ApiKey.PRODUCE, PRODUCE_VERSION, message)


def _frame(key: ApiKey, version: int, message: Struct) -> bytes:
    return codec.encode_request(APIS[key], version, 1, "bench", message)


def _make_topic(port: int, name: str, partitions: int) -> None:
    """Create a topic, if it is not there, and wait until the broker leads all of it."""
    made = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    message = CreateTopicsRequest(topics=[made], timeout_ms=60_000)
    _ask(port, _frame(ApiKey.CREATE_TOPICS, CREATE_VERSION, message))
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])

    def is_led(answer: bytes) -> bool:
        found: MetadataResponse = _decode(ApiKey.METADATA, METADATA_VERSION, answer)
        (topic,) = found.topics
        leaders = [each.leader_id for each in topic.partitions]
        return len(leaders) == partitions and min(leaders) >= 0

    _ask_until(port, _frame(ApiKey.METADATA, METADATA_VERSION, asked), is_led)


def _is_produced(answer: bytes) -> bool:
    message: ProduceResponse = _decode(ApiKey.PRODUCE, PRODUCE_VERSION, answer)
    return not any(each.error_code for each in message.responses[0].partition_responses)


def _is_whole(answer: bytes) -> bool:
    message: FetchResponse = _decode(ApiKey.FETCH, FETCH_VERSION, answer)
    partitions = message.responses[0].partitions
    return len(partitions) == PARTITIONS and all(each.records for each in partitions)


def _decode(key: ApiKey, version: int, answer: bytes) -> Any:
    _, message = codec.decode_response(APIS[key], version, memoryview(answer))
    return message


def _ask(port: int, frame: bytes) -> bytes:
    """Send one request over a connection of its own; return the answer behind its size."""
    with generators.connect(port) as connection, connection.makefile("rb") as answers:
        connection.sendall(frame)
        (size,) = struct.unpack(">i", answers.read(4))
        if not 0 < size <= ANSWER_BYTES_MAX:
            raise RuntimeError(f"an answer of {size} bytes")
        return answers.read(size)


def _ask_until(port: int, frame: bytes, is_enough: Callable[[bytes], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not is_enough(_ask(port, frame)):
        if time.monotonic() > deadline_s:
            raise RuntimeError("the server does not come to what was asked")
        time.sleep(0.1)
