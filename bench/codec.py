"""The Kafka protocol's codec alone: what a message costs to read and to write, in CPU time.

The peer is kafka-python, a pure Python implementation for clients that copies records.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections.abc import Callable

from bench.table import Table
from protocol.errors import FrameError
from protocol.kafka import codec
from protocol.kafka.apis import APIS, ApiKey
from protocol.kafka.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from protocol.kafka.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.kafka.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MEGABYTE = bytes(1_000_000)
ROUNDS = 7


def run(table: Table, scale: float) -> None:
    print("codec:", flush=True)
    _produce(table)
    _fetch(table)
    _metadata(table)
    _mutated(table, max(1_000, int(30_000 * scale)))
    _imports(table)


def _microseconds(call: Callable[[], object], calls: int) -> float:
    """Return the least of some rounds: what is added is other programs' doing."""
    least = float("inf")
    for _ in range(ROUNDS):
        started_s = time.thread_time()
        for _ in range(calls):
            call()
        least = min(least, (time.thread_time() - started_s) / calls)
    return least * 1e6


def _add(table: Table, name: str, ours: float, peer: float, bar: float) -> None:
    table.add(name, f"{ours:.1f} us", f"{peer:.1f} us (kafka-python)", ratio=ours, at_most=bar)


def _produce(table: Table) -> None:
    from kafka.protocol.producer import ProduceRequest as Peer

    api = APIS[ApiKey.PRODUCE]
    data = [PartitionProduceData(index=0, records=MEGABYTE)]
    message = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    frame = memoryview(codec.encode_request(api, 9, 1, "bench", message))[4:]
    position = codec.decode_header(frame).body_position
    body = bytes(frame[position:])
    ours = _microseconds(lambda: codec.decode_request(api, 9, frame, position), 2_000)
    peer = _microseconds(lambda: Peer.decode(body, version=9), 200)
    _add(table, "Produce v9 with 1 MB, read", ours, peer, 5)


def _fetch(table: Table) -> None:
    api = APIS[ApiKey.FETCH]
    partition = PartitionData(records=memoryview(MEGABYTE))
    topic = FetchableTopicResponse(topic="t", partitions=[partition])
    message = FetchResponse(responses=[topic])
    ours = _microseconds(lambda: codec.encode_response(api, 12, 1, message), 2_000)
    peer = _peer_writing("consumer", "FetchResponse", api, 12, message, 50)
    _add(table, "Fetch v12 with 1 MB, written", ours, peer, 5)


def _metadata(table: Table) -> None:
    api = APIS[ApiKey.METADATA]
    partitions = [
        MetadataResponsePartition(partition_index=n, replica_nodes=[1], isr_nodes=[1])
        for n in range(1_000)
    ]
    message = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="localhost", port=9092)],
        topics=[MetadataResponseTopic(name="t", partitions=partitions)],
    )
    ours = _microseconds(lambda: codec.encode_response(api, 12, 1, message), 20)
    peer = _peer_writing("metadata", "MetadataResponse", api, 12, message, 5)
    _add(table, "Metadata v12 of 1,000 partitions, written", ours, peer, 1_500)


def _peer_writing(
    family: str, name: str, api: object, version: int, message: object, calls: int
) -> float:
    import importlib

    body = b"".join(codec.encode_response(api, version, 1, message))[9:]  # type: ignore[arg-type]
    peer = getattr(importlib.import_module(f"kafka.protocol.{family}"), name)
    read = peer.decode(body, version=version)
    read._header = None
    return _microseconds(lambda: read.encode(version=version), calls)


def _mutated(table: Table, count: int) -> None:
    """How long a request takes at most whose bytes were changed here and there."""
    api, choose = APIS[ApiKey.FETCH], random.Random(7)
    topics = [
        FetchTopic(topic=f"t{n}", partitions=[FetchPartition(partition=k) for k in range(20)])
        for n in range(20)
    ]
    request = codec.encode_request(api, 12, 1, "bench", FetchRequest(topics=topics))
    body = request[4:][codec.decode_header(memoryview(request)[4:]).body_position :]
    longest_s = 0.0
    for _ in range(count):
        mutated = bytearray(body)
        for _ in range(choose.randint(1, 4)):
            mutated[choose.randrange(len(mutated))] = choose.choice([0, 1, 0x7F, 0x80, 0xFF])
        started_s = time.thread_time()
        with contextlib.suppress(FrameError):
            codec.decode_request(api, 12, memoryview(mutated), 0)
        longest_s = max(longest_s, time.thread_time() - started_s)
    table.add(
        f"Fetch v12 of 400 partitions, {count:,} times mutated: the longest",
        f"{longest_s * 1e3:.2f} ms", ratio=longest_s * 1e3, at_most=10,
    )  # fmt: skip


def _imports(table: Table) -> None:
    """With bytecode, and what others import as well already there."""
    code = (
        "import time, msgspec, typing, struct, protocol.varint, protocol.errors\n"
        "started = time.process_time()\n"
        "import protocol.kafka.codec\n"
        "print((time.process_time() - started) * 1000)"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(ROUNDS)
    ]
    table.add("all messages imported", f"{min(runs):.0f} ms", ratio=min(runs), at_most=100)
