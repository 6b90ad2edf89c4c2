"""The segments under tests/data/kafka-4.3, and what Kafka served from them."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

from protocol.record_batch import Record

DIRECTORY = Path(__file__).resolve().parents[1] / "data" / "kafka-4.3"
PARTITIONS = sorted(path.name for path in DIRECTORY.iterdir() if path.is_dir())


def segments(partition: str) -> list[bytes]:
    """The .log files of a partition, in order; some are empty."""
    return [path.read_bytes() for path in sorted((DIRECTORY / partition).glob("*.log"))]


def served(partition: str) -> list[Record]:
    """Every record that Kafka served from them to a read_uncommitted consumer, in order."""
    lines = gzip.decompress((DIRECTORY / f"{partition}.jsonl.gz").read_bytes()).splitlines()
    return [
        Record(
            row["offset"],
            row["timestamp"],
            _bytes(row["key"]),
            _bytes(row["value"]),
            tuple((name, _bytes(value)) for name, value in row["headers"]),
        )
        for row in map(json.loads, lines)
    ]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
