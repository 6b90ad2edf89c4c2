"""The segments under tests/data/kafka-2.8, and what Kafka served from them."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

DIRECTORY = Path(__file__).resolve().parents[1] / "data" / "kafka-2.8"
PARTITIONS = sorted(path.name for path in DIRECTORY.iterdir() if path.is_dir())


class ServedRecord(NamedTuple):
    """What a consumer got."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def segments(partition: str) -> list[bytes]:
    """The .log files of a partition, in order."""
    return [
        gzip.decompress(path.read_bytes()) for path in sorted((DIRECTORY / partition).iterdir())
    ]


def served(partition: str) -> list[ServedRecord]:
    """Every record that Kafka served from them, in order."""
    return [
        ServedRecord(row["offset"], row["timestamp"], _bytes(row["key"]), _bytes(row["value"]))
        for row in _rows(partition)
    ]


def served_timestamp_types(partition: str) -> list[str]:
    """For each of them NoTimestampType, CreateTime or LogAppendTime."""
    return [row["timestamp_type"] for row in _rows(partition)]


def _rows(partition: str) -> list[dict[str, Any]]:
    lines = gzip.decompress((DIRECTORY / f"{partition}.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
