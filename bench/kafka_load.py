"""Load on a Kafka broker by librdkafka, in a process of its own; prints one JSON object.

python -m bench.kafka_load produce ADDRESS TOPIC BYTES COUNT
python -m bench.kafka_load consume ADDRESS TOPIC COUNT
python -m bench.kafka_load latency ADDRESS TOPIC RATE SECONDS
python -m bench.kafka_load receive ADDRESS TOPIC COUNT
python -m bench.kafka_load join    ADDRESS TOPIC
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

BATCH_BYTES: Final = 1_000_000
LINGER_MS: Final = 5
TIMEOUT_S: Final = 120.0
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789 "
MESSAGES_A_CALL: Final = 200
"""In and out: more of them would not be in the processor's cache any more when they are used."""


def produce(address: str, topic: str, size_bytes: str, count: str) -> dict[str, float]:
    """Send messages of random letters, acks=all; return how long until all were acknowledged.

    Handed over in lists: one call a message is what Python could do 0.6 million times a second.
    """
    producer = _producer(address, LINGER_MS)
    letters = random.Random(7)
    messages = [
        {"value": "".join(letters.choices(LETTERS, k=int(size_bytes))).encode()}
        for _ in range(MESSAGES_A_CALL)
    ]
    producer.produce(topic, messages[0]["value"])
    producer.flush(TIMEOUT_S)  # connected, and the topic is there
    left = int(count)
    started_s = time.perf_counter()
    while left > 0:
        taken = producer.produce_batch(topic, messages[:left], partition=0)
        left -= taken
        # What was delivered is let go of at once, or its memory would be new all the time.
        producer.poll(0.001 if taken < len(messages) and left > 0 else 0)
    unsent = producer.flush(TIMEOUT_S)
    return {"seconds": time.perf_counter() - started_s, "left": unsent}


def consume(address: str, topic: str, count: str) -> dict[str, float]:
    """Read so many messages from the beginning; the first fetch is not counted."""
    consumer = _consumer(address)
    consumer.assign([TopicPartition(topic, 0, 0)])
    received = len(consumer.consume(1, TIMEOUT_S))
    started_s = time.perf_counter()
    while received < int(count) and time.perf_counter() < started_s + TIMEOUT_S:
        received += len(consumer.consume(MESSAGES_A_CALL, 1.0))
    seconds = time.perf_counter() - started_s
    consumer.close()
    return {"seconds": seconds, "received": received}


def latency(address: str, topic: str, rate: str, seconds: str) -> dict[str, float]:
    """Send at a steady rate; return how long each message took to a consumer, in milliseconds.

    The consumer is a process of its own, and reads the same clock.
    """
    producer = _producer(address, 0)
    producer.produce(topic, b"0")
    producer.flush(TIMEOUT_S)
    count = int(rate) * int(seconds)
    command = [sys.executable, "-m", "bench.kafka_load", "receive", address, topic, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        receiver.stdout.readline()  # it is there
        started_s = time.perf_counter()
        for number in range(count):
            due_s = started_s + number / int(rate)
            while (now_s := time.perf_counter()) < due_s:
                time.sleep(due_s - now_s)
            producer.produce(topic, repr(now_s).encode())
            producer.poll(0)
        producer.flush(TIMEOUT_S)
        result: dict[str, float] = json.loads(receiver.stdout.readline())
    return result


def receive(address: str, topic: str, count: str) -> dict[str, float]:
    """Take messages with the time of their sending in them; behind the one at offset 0."""
    consumer = _consumer(address)
    consumer.assign([TopicPartition(topic, 0, 0)])
    if not consumer.poll(TIMEOUT_S):
        raise RuntimeError("nothing comes")
    print("ready", flush=True)
    waits: list[float] = []
    while len(waits) < int(count):
        message = consumer.poll(TIMEOUT_S)
        now_s = time.perf_counter()
        if message is None or message.error():
            raise RuntimeError(f"after {len(waits)} messages: {message and message.error()}")
        waits.append(now_s - float(message.value() or 0))
    consumer.close()
    waits.sort()
    return {f"p{share}": waits[len(waits) * share // 100] * 1e3 for share in (50, 99)}


def join(address: str, topic: str) -> dict[str, float]:
    """Return the time from subscribing to the first record, in milliseconds, in a group of one.

    The group has a committed offset: to look for the first one librdkafka waits 100 ms by itself.
    """
    group = f"bench-{time.time_ns()}"
    before = _consumer(address, group)
    before.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    before.close()
    consumer = _consumer(address, group)
    consumer.list_topics(topic, TIMEOUT_S)  # connected
    started_s = time.perf_counter()
    consumer.subscribe([topic])
    message = consumer.poll(TIMEOUT_S)
    waited_s = time.perf_counter() - started_s
    if message is None or message.error():
        raise RuntimeError(f"nothing comes: {message and message.error()}")
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
            # By its default a full queue holds the next fetch back for a second.
            "fetch.queue.backoff.ms": 2,
        }
    )


COMMANDS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "produce": produce, "consume": consume, "latency": latency, "receive": receive,
    "join": join,
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))
