"""Load on a Kafka broker by librdkafka, in a process of its own; prints one JSON object.

python -m bench.kafka_load produce ADDRESS TOPIC BYTES COUNT
python -m bench.kafka_load consume ADDRESS TOPIC COUNT
python -m bench.kafka_load latency ADDRESS TOPIC RATE SECONDS
python -m bench.kafka_load join    ADDRESS TOPIC
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

BATCH_BYTES: Final = 1_000_000
LINGER_MS: Final = 5
TIMEOUT_S: Final = 120.0


def produce(address: str, topic: str, size_bytes: str, count: str) -> dict[str, float]:
    """Send messages of random letters, acks=all; return how long until all were acknowledged."""
    producer = _producer(address, LINGER_MS)
    letters = random.Random(7)
    values = [
        "".join(
            letters.choices("abcdefghijklmnopqrstuvwxyz0123456789 ", k=int(size_bytes))
        ).encode()
        for _ in range(200)
    ]
    producer.produce(topic, values[0])
    producer.flush(TIMEOUT_S)  # connected, and the topic is there
    started_s = time.perf_counter()
    for number in range(int(count)):
        while True:
            try:
                producer.produce(topic, values[number % 200])
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(TIMEOUT_S)
    return {"seconds": time.perf_counter() - started_s, "left": left}


def consume(address: str, topic: str, count: str) -> dict[str, float]:
    """Read so many messages from the beginning; the first fetch is not counted."""
    consumer = _consumer(address)
    consumer.assign([TopicPartition(topic, 0, 0)])
    received = len(consumer.consume(1, TIMEOUT_S))
    started_s = time.perf_counter()
    while received < int(count) and time.perf_counter() < started_s + TIMEOUT_S:
        received += len(consumer.consume(10_000, 1.0))
    seconds = time.perf_counter() - started_s
    consumer.close()
    return {"seconds": seconds, "received": received}


def latency(address: str, topic: str, rate: str, seconds: str) -> dict[str, float]:
    """Send at a steady rate; return how long each message took to a consumer, in milliseconds."""
    producer = _producer(address, 0)
    producer.produce(topic, b"0")
    producer.flush(TIMEOUT_S)
    consumer = _consumer(address)
    consumer.assign([TopicPartition(topic, 0, 1)])
    count = int(rate) * int(seconds)
    waits: list[float] = []

    def receive() -> None:
        while len(waits) < count:
            messages = consumer.consume(100, 0.5)
            now_s = time.perf_counter()
            waits.extend(now_s - float(each.value() or 0) for each in messages if not each.error())

    receiver = threading.Thread(target=receive, daemon=True)
    receiver.start()
    started_s = time.perf_counter()
    for number in range(count):
        due_s = started_s + number / int(rate)
        while (now_s := time.perf_counter()) < due_s:
            producer.poll(min(0.001, due_s - now_s))
        producer.produce(topic, repr(now_s).encode())
    producer.flush(TIMEOUT_S)
    receiver.join(TIMEOUT_S)
    consumer.close()
    waits.sort()
    return {f"p{share}": waits[len(waits) * share // 100] * 1e3 for share in (50, 99)}


def join(address: str, topic: str) -> dict[str, float]:
    """Return the time from subscribing in a new group to the first record, in milliseconds."""
    consumer = _consumer(address, f"bench-{time.time_ns()}")
    consumer.list_topics(topic, TIMEOUT_S)  # connected
    started_s = time.perf_counter()
    consumer.subscribe([topic])
    while not consumer.consume(1, 0.5):
        if time.perf_counter() > started_s + TIMEOUT_S:
            break
    waited_s = time.perf_counter() - started_s
    consumer.close()
    return {"milliseconds": waited_s * 1e3}


def _producer(address: str, linger_ms: int) -> Producer:
    return Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": linger_ms,
            "batch.size": BATCH_BYTES,
            "batch.num.messages": 1_000_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )


def _consumer(address: str, group: str = "bench") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "queued.max.messages.kbytes": 200_000,
        }
    )


COMMANDS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "produce": produce, "consume": consume, "latency": latency, "join": join,
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))
