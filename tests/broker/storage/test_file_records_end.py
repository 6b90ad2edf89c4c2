"""FileRecords: truncated, renamed, closed and deleted (R11)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import structlog.testing

from broker.storage import file_handles
from broker.storage.file_handles import FileHandles
from broker.storage.file_records import FileRecords
from protocol.errors import StorageError
from tests.support.fake_disk import FakeDisk
from tests.support.file_records import LOG, empty_records, on_fake_disk


@pytest.fixture(params=["os", "fake"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> FileRecords:
    """An empty set, on the real and on the fake disk."""
    return empty_records(request.param, tmp_path)


# --- R11: the end -----------------------------------------------------------------------------


def test_given_a_set_when_truncated_then_the_bytes_cut_are_told(records: FileRecords) -> None:
    """R11: error when larger than the file; returns the bytes cut."""
    records.append([b"0123456789"], 10)

    cut = [records.truncate_to(10), records.truncate_to(4), records.truncate_to(4)]

    assert cut == [0, 6, 0]
    assert records.file_bytes() == records.size_bytes == 4
    for size in (5, -1):
        with pytest.raises(StorageError):
            records.truncate_to(size)
    assert records.append([b"x"], 1) == 4


def test_given_a_set_when_renamed_then_it_goes_on_under_its_new_name(records: FileRecords) -> None:
    """R11: rename_to."""
    records.append([b"abc"], 3)
    old = records.path
    piece = records.read(1, 2)

    records.rename_to(old.with_name(old.name + ".deleted"))
    records.append([b"def"], 3)

    disk = records.handles.disk
    assert records.path.name.endswith(".log.deleted")
    assert not disk.exists(old)
    assert disk.read_file(records.path) == b"abcdef"
    assert piece.path == records.path
    assert piece.read_bytes(0, 2) == b"bc"


def test_given_a_rename_that_fails_when_tried_then_nothing_has_changed() -> None:
    """R11."""
    disk, records = on_fake_disk(b"abc")
    disk.fail("rename", OSError(errno.EIO, "broken"))

    with pytest.raises(StorageError):
        records.rename_to(Path("/other"))

    assert records.path == LOG
    assert records.read_bytes(0, 3) == b"abc"


def test_given_a_renamed_directory_when_told_then_the_set_is_found_there() -> None:
    disk = FakeDisk()
    disk.make_directory(Path("/t-0"))
    handles = FileHandles(disk, 10)
    records = FileRecords.open(handles, Path("/t-0/0.log"), create=True)
    records.append([b"abc"], 3)

    disk.rename(Path("/t-0"), Path("/t-0.x-delete"))
    handles.renamed(Path("/t-0"), Path("/t-0.x-delete"))
    records.moved_to(Path("/t-0.x-delete/0.log"))
    records.append([b"def"], 3)

    assert disk.read_file(Path("/t-0.x-delete/0.log")) == b"abcdef"
    assert disk.open_files == 1


def test_given_an_unflushed_set_when_closed_then_it_is_flushed_trimmed_and_closed() -> None:
    """R11: close = flush, trim to the valid size, close."""
    disk, records = on_fake_disk(b"valid")
    records.append([b"more"], 4)
    records.file().write([b"tail"], 9)
    disk.operations.clear()

    records.close()
    records.close()

    assert [operation.name for operation in disk.operations] == [
        "sync",
        "truncate",
        "sync",
        "close",
    ]
    assert disk.read_file(LOG) == b"validmore"
    for use in (lambda: records.append([b"x"], 1), lambda: records.read_bytes(0, 1)):
        with pytest.raises(StorageError, match="is closed"):
            use()


def test_given_a_clean_set_when_closed_then_nothing_is_synced() -> None:
    disk, records = on_fake_disk(b"valid")

    records.close()

    assert [operation.name for operation in disk.operations] == ["close"]


@pytest.mark.parametrize("is_unflushed", [False, True])
def test_given_a_close_error_when_deleted_then_the_file_goes_all_the_same(
    is_unflushed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R11: delete logs a close error and goes on to unlink."""
    disk, records = on_fake_disk(b"abc")
    if is_unflushed:
        records.append([b"def"], 3)
    disk.fail("close", OSError(errno.EIO, "close failed"))
    logger = structlog.testing.CapturingLogger()
    monkeypatch.setattr(file_handles, "_log", logger)

    records.delete()

    assert not disk.exists(LOG)
    assert disk.open_files == 0
    assert [call.kwargs["error"] for call in logger.calls] == ["[Errno 5] close failed"]
    with pytest.raises(StorageError, match="is deleted"):
        records.read_bytes(0, 1)


def test_given_a_missing_file_when_deleted_then_that_is_no_error(records: FileRecords) -> None:
    """R11: somebody else was faster, or a crash lost it."""
    records.handles.disk.unlink(records.path)

    records.delete()

    assert not records.handles.disk.exists(records.path)


def test_given_a_file_that_cannot_be_removed_when_deleted_then_the_error_comes_out() -> None:
    """R11."""
    disk, records = on_fake_disk(b"abc")
    disk.fail("unlink", OSError(errno.EROFS, "read-only"))

    with pytest.raises(StorageError, match="read-only"):
        records.delete()
