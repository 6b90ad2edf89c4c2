"""File records for tests, on the fake disk and on the real one."""

from __future__ import annotations

from pathlib import Path

from broker.storage.file_handles import FileHandles
from broker.storage.file_records import FileRecords
from broker.storage.os_disk import OsDisk
from tests.support.fake_disk import FakeDisk

LOG = Path("/00000000000000000000.log")


def empty_records(disk_name: str, directory: Path) -> FileRecords:
    """An empty set, on the real disk ("os") in `directory` or on a fake one ("fake")."""
    if disk_name == "os":
        return FileRecords.open(FileHandles(OsDisk(), 10), directory / LOG.name, create=True)
    return FileRecords.open(FileHandles(FakeDisk(), 10), LOG, create=True)


def on_fake_disk(
    data: bytes = b"", *, space_bytes: int | None = None
) -> tuple[FakeDisk, FileRecords]:
    """A set that holds `data`, flushed; and the disk, whose journal starts after that."""
    disk = FakeDisk(space_bytes=space_bytes)
    records = FileRecords.open(FileHandles(disk, 10), LOG, create=True)
    if data:
        records.append([data], len(data))
        records.flush()
    disk.operations.clear()
    return disk, records
