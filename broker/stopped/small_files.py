"""Small files: checkpoints, metadata, snapshots of a data directory, each read by its format."""

from __future__ import annotations

from collections.abc import Callable, Sized
from pathlib import Path
from typing import Final

from broker.stopped.findings import FileFinding, Problem, Severity
from protocol.errors import TidelogError
from protocol.identifiers import TopicPartition
from protocol.stored import (
    checkpoint,
    clean_shutdown,
    durable_offsets,
    file_names,
    leader_epoch_checkpoint,
    meta_properties,
    partition_metadata,
    producer_snapshot,
    transaction_index,
)

Decoder = Callable[[bytes], object]

DECODERS: Final[dict[str, tuple[str, Decoder]]] = {
    file_names.RECOVERY_POINT_CHECKPOINT: ("checkpoint", checkpoint.offset_checkpoint_decode),
    file_names.HIGH_WATERMARK_CHECKPOINT: ("checkpoint", checkpoint.offset_checkpoint_decode),
    file_names.LOG_START_CHECKPOINT: ("checkpoint", checkpoint.offset_checkpoint_decode),
    file_names.CLEANER_CHECKPOINT: ("checkpoint", checkpoint.offset_checkpoint_decode),
    file_names.LEADER_EPOCH_CHECKPOINT: ("checkpoint", leader_epoch_checkpoint.decode),
    file_names.CLEAN_SHUTDOWN_MARKER: ("metadata", clean_shutdown.decode),
    file_names.META_PROPERTIES: ("metadata", meta_properties.decode),
    file_names.PARTITION_METADATA: ("metadata", partition_metadata.decode),
    file_names.DURABLE_OFFSETS: ("checkpoint", durable_offsets.decode),
    file_names.SNAPSHOT_SUFFIX: ("snapshot", producer_snapshot.decode),
    file_names.TRANSACTION_INDEX_SUFFIX: ("txnindex", transaction_index.decode),
}
"""Kind and decoder, by file name or by the suffix of a segment's file."""

_IRREPLACEABLE: Final = frozenset({file_names.META_PROPERTIES, file_names.PARTITION_METADATA})
"""Not rebuilt from the log by a start."""


def small_file_finding(path: Path) -> FileFinding | None:
    """Return what is to be said of one small file; None if it is none of ours."""
    kind, decode = DECODERS.get(path.name) or DECODERS.get(path.suffix) or ("", None)
    if decode is None:
        return None
    data = path.read_bytes()
    problems: tuple[Problem, ...] = ()
    count = 0
    try:
        decoded = decode(data)
        count = len(decoded) if isinstance(decoded, Sized) else 1
    except TidelogError as error:
        severity = Severity.ERROR if path.name in _IRREPLACEABLE else Severity.WARNING
        problems = (Problem(severity, str(error)),)
    return FileFinding(
        path=path,
        kind=kind,
        size_bytes=len(data),
        entry_count=count,
        record_count=0,
        first_offset=None,
        last_offset=None,
        problems=problems,
    )


def durable_offsets_of(data_directory: Path) -> dict[tuple[bytes, int], int]:
    """Return the durable offsets by (topic id, partition); empty where none can be read."""
    try:
        data = (data_directory / file_names.DURABLE_OFFSETS).read_bytes()
        slots = durable_offsets.decode(data)
    except (OSError, TidelogError):
        return {}
    found: dict[tuple[bytes, int], int] = {}
    for slot in slots:  # a partition may have two after a crash: both were true once
        key = (slot.topic_id.bytes, slot.partition)
        found[key] = max(slot.durable_offset, found.get(key, 0))
    return found


def offsets_in(path: Path) -> dict[TopicPartition, int]:
    """Return what an offset checkpoint says; nothing where it cannot be read."""
    try:
        return checkpoint.offset_checkpoint_decode(path.read_bytes())
    except (OSError, TidelogError):
        return {}
