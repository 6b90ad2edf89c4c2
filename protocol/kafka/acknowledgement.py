"""Acknowledgement: the ProduceResponse of nearly every Produce, for one partition without an error.

Such answers to one topic differ in five numbers only. What stands around them is taken from what
the codec makes of the message, once for each version and topic; from then on an answer is one
`pack`, a tenth of the work.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from protocol.kafka.apis import APIS, ApiKey
from protocol.kafka.codec import encode_response
from protocol.kafka.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

__all__ = ["LOG_START_FROM", "encode_acknowledgement"]

LOG_START_FROM: Final = 5
"""The first version whose numbers are these; those before have no log start offset."""
NUMBERS: Final = struct.Struct(">ihqqq")
"""Index, error code, base offset, log append time, log start offset."""
TOPICS_KEPT: Final = 10_000


def encode_acknowledgement(
    version: int,
    correlation_id: int,
    name: str,
    topic_id: bytes,
    index: int,
    base_offset: int,
    log_start_offset: int,
) -> bytes:
    """Return the answer in a version from `LOG_START_FROM` on, its size in front.

    Args:
        name: Of the topic, as the request has it; `topic_id` likewise.

    Raises:
        ValueError: an older version.
    """
    pack, size, head, tail = _surroundings(version, name, topic_id)
    return pack(size, correlation_id, head, index, 0, base_offset, -1, log_start_offset, tail)


@lru_cache(maxsize=TOPICS_KEPT)
def _surroundings(
    version: int, name: str, topic_id: bytes
) -> tuple[Callable[..., bytes], int, bytes, bytes]:
    """Return what packs an answer, its size, and its bytes before and behind the numbers."""
    partition = PartitionProduceResponse(0, 0, 0, -1, -1)
    topic = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[partition])
    message = ProduceResponse(responses=[topic])
    frame = b"".join(encode_response(APIS[ApiKey.PRODUCE], version, 0, message))
    head, tail = frame[8:].split(NUMBERS.pack(0, 0, 0, -1, -1))  # nothing else looks like them
    form = struct.Struct(f">ii{len(head)}s{NUMBERS.format[1:]}{len(tail)}s")
    return form.pack, len(frame) - 4, head, tail
