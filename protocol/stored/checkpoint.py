"""Checkpoint files: an offset for each partition of a data directory, as text.

As Apache Kafka 3.x and 4.x write them (CheckpointFile, OffsetCheckpointFile): lines end in `\\n`,
the first is the version, the second the number of lines that follow, each of those an entry.

    0                          version
    2                          count
    web-logs 0 1042            topic, partition, offset
    web-logs 1 977

`recovery-point-offset-checkpoint`, `replication-offset-checkpoint` (high watermarks),
`log-start-offset-checkpoint` and `cleaner-offset-checkpoint` are of this form;
`leader-epoch-checkpoint` has other entries (`leader_epoch_checkpoint.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from protocol.errors import StoredFormatError
from protocol.identifiers import Buffer, TopicPartition
from protocol.limits import INT32_MAX, INT64_MAX
from protocol.stored.file_names import is_topic_name

VERSION: Final = 0

_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)  # int() alone takes "1_0", "+1" and other scripts


def offset_checkpoint_encode(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the file's bytes, entries in the mapping's order."""
    return checkpoint_encode(
        [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    )


def offset_checkpoint_decode(data: Buffer) -> dict[TopicPartition, int]:
    """Return the offset of each partition, in the file's order.

    Raises:
        StoredFormatError: anything else than the form above, an illegal topic name, a number out of
            range, or one partition twice. Nothing of the file is to be trusted then.
    """
    offsets: dict[TopicPartition, int] = {}
    for fields in checkpoint_decode(data, fields_per_line=3):
        topic, partition_text, offset_text = fields
        if not is_topic_name(topic):
            raise StoredFormatError(f"checkpoint: {topic!r} is no topic name")
        partition = parse_number(partition_text, INT32_MAX)
        topic_partition = TopicPartition(topic, partition)
        if topic_partition in offsets:
            raise StoredFormatError(f"checkpoint: {topic_partition} stands there twice")
        offsets[topic_partition] = parse_number(offset_text, INT64_MAX)
    return offsets


def checkpoint_encode(lines: Iterable[str]) -> bytes:
    """Return version, count and the lines, each ended by a newline; for every kind of entry."""
    entries = list(lines)
    return "\n".join([str(VERSION), str(len(entries)), *entries, ""]).encode()


def checkpoint_decode(data: Buffer, *, fields_per_line: int) -> list[list[str]]:
    """Return the fields of each entry line, after version and count were checked.

    An empty file has no entries: Kafka creates the file first and fills it at a first checkpoint.

    Raises:
        StoredFormatError: not UTF-8, another version, a count that is not the number of lines, or a
            line with another number of fields.
    """
    try:
        lines = bytes(data).decode().split("\n")
    except UnicodeDecodeError as error:
        raise StoredFormatError(f"checkpoint: {error}") from error
    if lines[-1] == "":
        lines.pop()  # what follows the last newline
    if not lines:
        return []
    if len(lines) < 2:
        raise StoredFormatError("checkpoint: the file ends before its count")
    version = parse_number(lines[0], INT32_MAX)
    if version != VERSION:
        raise StoredFormatError(f"checkpoint: version {version} is not known, only {VERSION}")
    count = parse_number(lines[1], INT32_MAX)
    if count != len(lines) - 2:
        raise StoredFormatError(f"checkpoint: {count} entries announced, {len(lines) - 2} found")
    entries = [line.split(" ") for line in lines[2:]]
    for number, fields in enumerate(entries):
        if len(fields) != fields_per_line:
            raise StoredFormatError(f"checkpoint: entry {number} has {len(fields)} fields")
    return entries


def parse_number(text: str, number_max: int) -> int:
    """Return the number that `text` is, 0 to `number_max`.

    Raises:
        StoredFormatError: it is no decimal number, or out of range.
    """
    if _NUMBER.fullmatch(text) is None or (number := int(text)) > number_max:
        raise StoredFormatError(f"{text[:40]!r} is not a number from 0 to {number_max}")
    return number
