"""Quarantine: copies of bad bytes, and reports, beside the log they are in or were cut from.

    00000000000000000027.log.892-5f2a90c1.quarantine        the bytes
    00000000000000000027.log.892-5f2a90c1.quarantine.json   where they were, and what is wrong

The name is made of position and SHA-256, so a start that finds the same wound again finds its copy
too. Kafka passes over such names. Nobody here deletes them: they are an operator's.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import structlog

from broker.storage.disk import Disk, replace_file, storage_errors, write_whole
from protocol.errors import StorageError
from protocol.stored.file_names import QUARANTINE_SUFFIX, log_file_name

if TYPE_CHECKING:
    from broker.storage.damage import Damage
    from broker.storage.log_context import LogContext

_log = structlog.get_logger(__name__)

REPORT_SUFFIX: Final = f"{QUARANTINE_SUFFIX}.json"
STEP_BYTES: Final = 1024 * 1024
RUNNING_COPY_BYTES_MAX: Final = 8 * 1024 * 1024
"""More would hold up the event loop; the next start copies all of it."""


class Cause(enum.StrEnum):
    """Why bytes are in quarantine."""

    DAMAGE = "damage"
    """They are bad, and still in the log file."""
    TORN_TAIL = "torn tail"
    """They were cut off, and valid batches were behind the first bad byte."""
    BEHIND_TORN_TAIL = "behind a torn tail"
    """A whole segment that was removed because what comes before it was cut."""
    REPAIR = "repair"
    """`tidelog verify --repair` took them out."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the JSON file says."""

    version: int = 1
    partition: str
    file: str
    """The log file."""
    cause: Cause
    fault: str
    position: int
    """Of the first bad byte in the log file, as it was then."""
    end_position: int
    first_offset: int
    """The first offset that cannot be read."""
    next_offset: int
    """The first one behind it that can."""
    size_bytes: int
    copied_bytes: int
    """Less than `size_bytes` where a running broker found much at once."""
    sha256: str
    """Of the bytes that were copied."""
    found_at: str
    """ISO 8601, UTC."""


class Copy(NamedTuple):
    """What became of one stretch."""

    name: str
    """Of the copy, or of the report where there are no bytes to be copied."""
    is_new: bool


def keep_copy(
    disk: Disk,
    directory: Path,
    damage: Damage,
    cause: Cause,
    now_ms: int,
    *,
    durable: bool = True,
    bytes_max: int | None = None,
) -> Copy:
    """Copy a stretch of a log file and write a report about it, unless that was done before.

    Args:
        directory: The partition's.
        durable: Both are, on return. Without, nothing here waits for the disk.
        bytes_max: Copy no more than this.

    Raises:
        StorageError: the log cannot be read, or the copy not be written.
    """
    path = directory / log_file_name(damage.segment_base_offset)
    size = damage.size_bytes if bytes_max is None else min(damage.size_bytes, bytes_max)
    digest = hashlib.sha256()
    with storage_errors("copy a part of", path):
        for piece in _pieces(disk, path, damage.position, size):
            digest.update(piece)
        what = digest.hexdigest()[:8] if size else f"missing-{damage.first_offset}"
        name = f"{path.name}.{damage.position}-{what}{QUARANTINE_SUFFIX}"
        copy, report = directory / name, directory / f"{name}.json"
        if disk.exists(report) and (not size or _digest(disk, copy) == digest.digest()):
            if durable:  # a running broker did not wait for that
                _sync(disk, [copy, report] if size else [report])
            return Copy(name if size else report.name, is_new=False)
        if size:
            _write_copy(disk, copy, _pieces(disk, path, damage.position, size), durable=durable)
        text = _report(directory, path, damage, cause, size, digest.hexdigest(), now_ms)
        if durable:
            replace_file(disk, report, text)
        else:
            _write_copy(disk, report, iter([text]), durable=False)
    return Copy(name if size else report.name, is_new=True)


def report_found(context: LogContext, directory: Path, damage: Damage) -> None:
    """Say aloud what a running broker has found, and copy it as far as that takes no time."""
    try:
        copy = keep_copy(
            context.disk, directory, damage, Cause.DAMAGE, context.clock.now_ms(),
            durable=False, bytes_max=RUNNING_COPY_BYTES_MAX,
        ).name  # fmt: skip
    except StorageError as error:
        copy = f"none: {error}"
    _log.error(
        "damage found: reads of it answer CORRUPT_MESSAGE; verify the partition",
        partition=directory.name,
        bad_bytes=damage.size_bytes,
        copy=copy,
        **damage._asdict(),
    )


def is_quarantine_name(name: str) -> bool:
    """Whether a file of that name is a copy or a report."""
    return name.endswith((QUARANTINE_SUFFIX, REPORT_SUFFIX))


def read_report(data: bytes) -> Report:
    """Return what a report says.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    return msgspec.json.decode(data, type=Report)


def _report(
    directory: Path,
    path: Path,
    damage: Damage,
    cause: Cause,
    copied_bytes: int,
    sha256: str,
    now_ms: int,
) -> bytes:
    found_at = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
    report = Report(
        partition=directory.name,
        file=path.name,
        cause=cause,
        fault=damage.fault,
        position=damage.position,
        end_position=damage.end_position,
        first_offset=damage.first_offset,
        next_offset=damage.next_offset,
        size_bytes=damage.size_bytes,
        copied_bytes=copied_bytes,
        sha256=sha256,
        found_at=found_at,
    )
    return msgspec.json.format(msgspec.json.encode(report)) + b"\n"


def _pieces(disk: Disk, path: Path, position: int, size: int) -> Iterator[bytes]:
    if not size:
        return
    file = disk.open(path, read_only=True)
    try:
        while size > 0:
            piece = file.read(min(size, STEP_BYTES), position)
            if not piece:
                return
            yield piece
            position, size = position + len(piece), size - len(piece)
    finally:
        file.close()


def _digest(disk: Disk, path: Path) -> bytes:
    if not disk.exists(path):
        return b""
    digest = hashlib.sha256()
    for piece in _pieces(disk, path, 0, disk.file_size(path)):
        digest.update(piece)
    return digest.digest()


def _sync(disk: Disk, paths: list[Path]) -> None:
    for path in paths:
        file = disk.open(path)
        try:
            file.sync()
        finally:
            file.close()
    disk.sync_directory(paths[0].parent)


def _write_copy(disk: Disk, path: Path, pieces: Iterator[bytes], *, durable: bool) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)  # a copy that a crash has left half-written
        position = 0
        for piece in pieces:
            position += write_whole(file, [piece], position)
        if durable:
            file.sync()
    finally:
        file.close()
