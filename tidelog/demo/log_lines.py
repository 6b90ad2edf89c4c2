"""LogLines: a file's lines, shipped in turn over a topic's partitions, and put in order again."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Final

from tidelog.client import Client, Delivery, FetchFrom

__all__ = ["PARTITIONS", "fetch_all", "in_order", "join_lines", "ship", "split_lines"]

PARTITIONS: Final = 4


def split_lines(data: bytes) -> tuple[list[bytes], bool]:
    """Return the lines and whether the last one ended; split at \\n only, so \\r is kept."""
    lines = data.split(b"\n")
    ends_with_newline = lines[-1] == b""
    return (lines[:-1] if ends_with_newline else lines), ends_with_newline


def join_lines(lines: list[bytes], ends_with_newline: bool) -> bytes:
    return b"\n".join(lines) + (b"\n" if ends_with_newline else b"")


def ship(client: Client, topic: str, lines: list[bytes]) -> list[Future[Delivery]]:
    """Produce the lines in turn over the partitions, acks=all; wait for all of them."""
    with client.producer(acks=-1) as producer:
        return [
            producer.produce(topic, line, partition=number % PARTITIONS)
            for number, line in enumerate(lines)
        ]


def fetch_all(client: Client, topic: str) -> list[list[bytes]]:
    """Return the values of every partition, by MULTIFETCH until there is no more."""
    values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    positions = [0] * PARTITIONS
    while True:
        answers = client.multi_fetch(
            [FetchFrom(topic, number, offset) for number, offset in enumerate(positions)]
        )
        for answer in answers:
            answer.raise_for_error()
            values[answer.partition] += [message.value or b"" for message in answer.messages]
            positions[answer.partition] = answer.next_offset
        if not any(answer.messages for answer in answers):
            return values


def in_order(values: list[list[bytes]]) -> list[bytes]:
    """Put lines that were shipped in turn back in their order."""
    total = sum(map(len, values))
    return [values[number % PARTITIONS][number // PARTITIONS] for number in range(total)]
