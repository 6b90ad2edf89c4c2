"""Flushing a set: the descriptor that wrote is the one that syncs, and a failed sync is final."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.file_handles import FileHandles
from broker.storage.file_records import FileRecords
from broker.storage.os_disk import OsDisk
from protocol.errors import StorageError
from tests.support.fake_disk import FakeDisk

LOG = Path("/00000000000000000000.log")


def open_records(disk: FakeDisk, open_files_max: int = 10) -> FileRecords:
    records = FileRecords.open(FileHandles(disk, open_files_max), LOG, create=True)
    disk.sync_directory(LOG.parent)
    return records


def crowd_out(records: FileRecords) -> None:
    """Open more files than the handle cache holds."""
    for number in range(records.handles.open_files_max + 1):
        records.handles.get(Path(f"/other-{number}"), create=True)


def test_given_unflushed_bytes_when_many_files_are_opened_then_the_writer_stays_open() -> None:
    """A descriptor opened after a write-back error says OK over lost data."""
    records = open_records(FakeDisk(), open_files_max=2)
    records.append([b"abc"], 3)
    writer = records.file()

    crowd_out(records)
    flush = records.start_flush()

    assert flush.file is writer
    flush.sync()
    flush.finish()
    crowd_out(records)
    assert records.file() is not writer  # clean: it may be closed


def test_given_a_running_sync_when_more_is_appended_then_only_what_it_covered_is_clean() -> None:
    disk = FakeDisk()
    records = open_records(disk)
    records.append([b"abc"], 3)
    flush = records.start_flush()

    flush.sync()
    records.append([b"def"], 3)
    flush.finish()

    assert records.has_unflushed
    crowd_out(records)
    disk.crash()
    assert disk.read_file(LOG) == b"abc"


def test_given_a_cut_during_a_sync_when_it_ends_then_the_set_is_not_clean() -> None:
    """Sizes alone would say so: the sync covered as many bytes as there are now."""
    records = open_records(FakeDisk())
    records.append([b"abcdef"], 6)
    flush = records.start_flush()

    flush.sync()
    records.truncate_to(3)
    records.append([b"xyz"], 3)
    flush.finish()

    assert records.has_unflushed


def test_given_a_set_deleted_during_a_sync_when_it_ends_then_its_file_is_closed() -> None:
    disk = FakeDisk()
    records = open_records(disk)
    records.append([b"abc"], 3)
    flush = records.start_flush()

    records.delete()
    flush.sync()
    flush.finish()

    assert disk.open_files == 0


def test_given_a_set_renamed_during_a_sync_when_it_ends_then_it_is_clean() -> None:
    disk = FakeDisk()
    records = open_records(disk)
    records.append([b"abc"], 3)
    flush = records.start_flush()

    flush.sync()
    records.rename_to(Path("/renamed"))
    flush.finish()

    assert not records.has_unflushed
    assert records.read_bytes(0, 3) == b"abc"
    assert disk.open_files == 1


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_given_a_sync_that_fails_when_anything_follows_then_nothing_is_accepted(
    number: int,
) -> None:
    """R11: no retry, no further bytes; also ENOSPC, which thin storage says at a sync."""
    disk = FakeDisk()
    records = open_records(disk)
    records.append([b"abc"], 3)
    disk.fail("sync", OSError(number, "sync failed"))

    with pytest.raises(OSError, match="sync failed") as caught:
        records.flush()

    assert caught.value.errno == number
    for use in (records.flush, records.start_flush, lambda: records.append([b"x"], 1)):
        with pytest.raises(StorageError, match="was not saved"):
            use()
    assert records.has_unflushed
    records.close()
    assert [operation.name for operation in disk.operations].count("sync") == 0


def test_given_a_flush_when_it_never_ran_then_nothing_is_known_to_be_durable() -> None:
    disk = FakeDisk()
    records = open_records(disk)
    records.append([b"abc"], 3)

    records.start_flush().finish()

    assert records.has_unflushed
    assert not disk.is_durable(LOG)
    records.flush()
    assert disk.is_durable(LOG)


def test_given_a_set_without_changes_when_flushed_then_it_is_synced_all_the_same() -> None:
    """What another process wrote before kill -9 is in the page cache only; recovery syncs it."""
    disk = FakeDisk()
    open_records(disk).append([b"abc"], 3)
    disk.kill()
    records = open_records(disk)

    records.flush()

    assert not records.has_unflushed
    assert disk.is_durable(LOG)


def test_given_an_observer_when_flushed_then_it_is_told_the_seconds_of_the_sync() -> None:
    """R11: flush records its time in a histogram."""
    seconds: list[float] = []
    times = iter([10.0, 10.25])
    handles = FileHandles(
        FakeDisk(), 10, observe_flush_seconds=seconds.append, monotonic=lambda: next(times)
    )
    records = FileRecords.open(handles, LOG, create=True)
    records.append([b"abc"], 3)

    records.flush()

    assert seconds == [0.25]


def test_given_the_real_disk_when_flushed_then_the_file_may_be_closed(tmp_path: Path) -> None:
    records = FileRecords.open(FileHandles(OsDisk(), 1), tmp_path / "0.log", create=True)
    records.append([b"abc"], 3)

    records.flush()
    records.handles.get(tmp_path / "other", create=True)

    assert records.handles.open_files == 1
    assert records.read_bytes(0, 3) == b"abc"


@given(
    steps=st.lists(st.sampled_from(["append", "flush", "cut"]), max_size=12),
    random=st.randoms(use_true_random=False),
)
def test_given_a_power_cut_when_reopened_then_what_was_flushed_is_there(
    steps: list[str], random: Random
) -> None:
    """R11: flush means durable."""
    disk = FakeDisk()
    records = open_records(disk)
    written, durable = b"", b""

    for number, step in enumerate(steps):
        if step == "append":
            data = b"%d" % (number % 10) * 700
            records.append([data], len(data))
            written += data
        elif step == "flush":
            records.flush()
            durable = written
        elif len(written) > len(durable):  # nobody cuts what is durable and goes on at once
            records.truncate_to(len(durable))
            written = durable
    disk.crash(random)

    assert open_records(disk).read_bytes(0, len(durable)) == durable
