"""Fetched: the FetchResponse of nearly every Fetch that has records, for one partition.

Like an acknowledgement (`acknowledgement`): answers to one topic differ in their numbers and in the
records; what stands around them is taken from what the codec makes of the message, once for each
version and topic.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from protocol.identifiers import Buffer
from protocol.kafka.apis import APIS, ApiKey
from protocol.kafka.codec import encode_response
from protocol.kafka.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.varint import encode_unsigned_varint

__all__ = ["LOG_START_FROM", "encode_fetched"]

LOG_START_FROM: Final = 5
"""The first version whose numbers are these; those before have no log start offset."""
NUMBERS: Final = struct.Struct(">ihqqq")
"""Index, error code, high watermark, last stable offset, log start offset."""
SIZE: Final = struct.Struct(">i")
"""Of the records, before the versions that are flexible; there it is a varint, plus one."""
MARKER: Final = b"records"
TOPICS_KEPT: Final = 10_000


def encode_fetched(
    version: int,
    correlation_id: int,
    name: str,
    topic_id: bytes,
    index: int,
    offsets: tuple[int, int, int],
    records: Sequence[Buffer],
    *,
    is_committed: bool,
) -> list[Buffer]:
    """Return the answer in a version from `LOG_START_FROM` on, its size in front.

    Args:
        name: Of the topic, as the request has it; `topic_id` likewise.
        offsets: High watermark, last stable offset, log start offset.
        records: In pieces, which are among what is returned as they are.
        is_committed: The isolation level asked for; no aborted transaction is named.

    Raises:
        ValueError: an older version.
    """
    pack, head, middle, tail, is_flexible = _surroundings(version, name, topic_id, is_committed)
    size = sum(map(len, records))
    size_field = encode_unsigned_varint(size + 1) if is_flexible else SIZE.pack(size)
    begin_bytes = len(head) + NUMBERS.size + len(middle) + len(size_field)
    frame_bytes = 4 + begin_bytes + size + len(tail)  # the correlation id counts
    begin = pack(frame_bytes, correlation_id, head, index, 0, *offsets, middle)
    return [begin + size_field, *records, tail]


@lru_cache(maxsize=TOPICS_KEPT)
def _surroundings(
    version: int, name: str, topic_id: bytes, is_committed: bool
) -> tuple[Callable[..., bytes], bytes, bytes, bytes, bool]:
    """Return what packs the begin of an answer, its bytes before and behind the numbers, and those
    behind the records; and whether the version is flexible."""
    api = APIS[ApiKey.FETCH]
    partition = PartitionData(
        0, 0, 0, -1, -1, aborted_transactions=[] if is_committed else None, records=MARKER
    )
    topic = FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[partition])
    frame = encode_response(api, version, 0, FetchResponse(responses=[topic]))
    before, _, tail = map(bytes, frame)
    is_flexible = api.is_flexible(version)
    size_bytes = 1 if is_flexible else SIZE.size
    head, middle = before[8:-size_bytes].split(NUMBERS.pack(0, 0, 0, -1, -1))
    form = struct.Struct(f">ii{len(head)}s{NUMBERS.format[1:]}{len(middle)}s")
    return form.pack, head, middle, tail, is_flexible
