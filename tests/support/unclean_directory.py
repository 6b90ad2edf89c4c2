"""A data directory as a killed broker, or another one, leaves it: logs, and nothing beside them."""

import time
from pathlib import Path
from struct import Struct

from protocol.record_batch_builder import build_batch

OFFSET = Struct(">q")


def write_log(data_directory: Path, name: str, size_bytes: int, *, value_bytes: int = 1) -> int:
    """Write a partition's log of one segment, of batches of one record; return the record count."""
    now_ms = time.time_ns() // 1_000_000  # retention would take older records away
    batch = build_batch([(0, now_ms, None, b"x" * value_bytes)])
    count = size_bytes // len(batch)
    data = bytearray(batch * count)
    for number in range(count):
        OFFSET.pack_into(data, number * len(batch), number)
    directory = data_directory / name
    directory.mkdir(parents=True)
    (directory / "00000000000000000000.log").write_bytes(data)
    return count
