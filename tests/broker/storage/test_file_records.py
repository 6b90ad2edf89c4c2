"""FileRecords: the message set over a file, rules R6 to R11."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import structlog.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.storage import file_handles
from broker.storage.disk import Disk
from broker.storage.file_handles import FileHandles
from broker.storage.file_records import FileRecords
from broker.storage.offset_metadata import OffsetPosition
from broker.storage.os_disk import OsDisk
from protocol.errors import BatchCorruptError, BatchTruncatedError, StorageError
from protocol.identifiers import Buffer
from protocol.limits import BUFFERS_PER_WRITE_MAX
from tests.support.fake_disk import FakeDisk
from tests.support.log_entries import Entry, batch, legacy_entry

LOG = Path("/00000000000000000000.log")


@pytest.fixture(params=["os", "fake"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> FileRecords:
    """An empty set, on the real and on the fake disk."""
    disk: Disk = OsDisk() if request.param == "os" else FakeDisk()
    directory = tmp_path if request.param == "os" else Path("/")
    return FileRecords.open(FileHandles(disk, 10), directory / LOG.name, create=True)


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


# --- R6, R7, R8: a set, and slices of it ------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "magics"),
    [
        ([], {0, 1, 2}),
        ([batch(0), batch(1)], {2}),
        ([legacy_entry(0, 1)], {1}),
        ([legacy_entry(0, 0), legacy_entry(1, 0)], {0}),
        ([legacy_entry(0, 1), batch(1)], set()),
    ],
)
def test_given_a_set_when_asked_for_a_magic_then_every_entry_must_have_it(
    records: FileRecords, entries: list[Entry], magics: set[int]
) -> None:
    """R6: has_magic is about every entry of the set."""
    for entry in entries:
        records.append([entry.data], len(entry.data))

    found = {magic for magic in (0, 1, 2) if records.has_magic(magic)}

    assert found == magics


def test_given_appends_when_read_then_each_is_at_the_position_it_was_given(
    records: FileRecords,
) -> None:
    """R7: every read and write names its position."""
    first = records.append([b"abc"], 3)
    second = records.append([b"de", bytearray(b"f"), memoryview(b"gh")], 5)

    assert (first, second, records.size_bytes) == (0, 3, 8)
    assert records.read_bytes(2, 3) == b"cde"
    assert records.read_bytes(0, 100) == b"abcdefgh"
    assert records.read_bytes(8, 1) == records.read_bytes(100, 1) == b""


def test_given_more_buffers_than_a_call_takes_when_appended_then_all_are_there(
    records: FileRecords,
) -> None:
    buffers: list[Buffer] = [b"%04d" % number for number in range(BUFFERS_PER_WRITE_MAX + 100)]

    position = records.append(buffers, 4 * len(buffers))

    assert position == 0
    assert records.read_bytes(0, 10_000) == b"".join(buffers)


def test_given_one_buffer_when_appended_then_it_is_one_write() -> None:
    disk, records = on_fake_disk()
    records.append([b"abc"], 3)
    disk.operations.clear()

    records.append([b"def", b"ghi"], 6)

    assert [operation.name for operation in disk.operations] == ["write"]


def test_given_a_slice_when_read_then_it_counts_from_its_start(records: FileRecords) -> None:
    """R7: size counts the slice. R8: a slice of a slice is bounded by both."""
    records.append([b"0123456789"], 10)

    piece = records.read(2, 5)
    inner = piece.read(3, 100)

    assert (piece.size_bytes, piece.start) == (5, 2)
    assert piece.read_bytes(1, 2) == b"34"
    assert piece.read_bytes(4, 100) == b"6"
    assert (inner.size_bytes, inner.read_bytes(0, 100)) == (2, b"56")
    assert records.read(20, 5).size_bytes == 0


def test_given_a_slice_when_appended_to_or_cut_then_it_is_refused(records: FileRecords) -> None:
    """R7: append only at the end of a whole set; a slice cannot append."""
    records.append([b"0123456789"], 10)
    piece = records.read(0, 10)

    with pytest.raises(StorageError, match="slice"):
        piece.append([b"x"], 1)
    with pytest.raises(StorageError, match="slice"):
        piece.truncate_to(5)

    assert records.read_bytes(0, 100) == b"0123456789"


def test_given_a_set_with_an_end_when_opened_then_it_ends_there(records: FileRecords) -> None:
    """R7: what is behind the end is not the set's; the next append goes over it."""
    records.append([b"0123456789"], 10)

    bounded = FileRecords.open(records.handles, records.path, end=4)
    found = bounded.read_bytes(0, 100)
    bounded.append([b"x"], 1)

    assert found == b"0123"
    assert bounded.read_bytes(0, 100) == b"0123x"
    with pytest.raises(StorageError, match="10 bytes, not 11"):
        FileRecords.open(records.handles, records.path, end=11)


def test_given_a_buffer_when_read_into_then_it_is_filled_up_to_the_sets_end(
    records: FileRecords,
) -> None:
    """R8: read_into(buffer, position)."""
    records.append([b"0123456789"], 10)
    buffer = bytearray(b"......")

    count = records.read(0, 8).read_into(memoryview(buffer), 5)

    assert (count, buffer) == (3, bytearray(b"567..."))


@pytest.mark.parametrize(("position", "size"), [(-1, 1), (0, -1)])
def test_given_a_negative_position_or_size_when_read_then_it_is_refused(
    records: FileRecords, position: int, size: int
) -> None:
    """R8."""
    with pytest.raises(StorageError):
        records.read(position, size)
    with pytest.raises(StorageError):
        records.read_bytes(position, size)


def test_given_no_file_when_opened_then_the_error_says_so() -> None:
    handles = FileHandles(FakeDisk(), 10)

    with pytest.raises(StorageError) as caught:
        FileRecords.open(handles, LOG)

    assert caught.value.errno == errno.ENOENT


# --- R9: search; R4: the iterator -------------------------------------------------------------


def test_given_batches_when_searched_then_the_last_offset_decides(records: FileRecords) -> None:
    """R9: the first batch whose last offset is at or above the target; None at the end."""
    for entry in (legacy_entry(3, 0), batch(4, 3, bytes(39)), batch(10)):
        records.append([entry.data], len(entry.data))

    found = [records.search_for(target) for target in (0, 3, 4, 6, 7, 10, 11)]

    first, second, third = (
        OffsetPosition(3, 0, 26),
        OffsetPosition(4, 26, 100),
        OffsetPosition(10, 126, 61),
    )
    assert found == [first, first, second, second, third, third, None]
    assert records.search_for(3, from_position=26) == second


def test_given_a_slice_when_searched_and_walked_then_positions_count_from_its_start(
    records: FileRecords,
) -> None:
    """R7 and R9; a slice's end inside a batch is an end, not damage."""
    for offset in range(3):
        records.append([batch(offset).data], 61)
    piece = records.read(61, 100)

    walked = [(position, header.base_offset) for position, header in piece.batches()]

    assert piece.search_for(1) == OffsetPosition(1, 0, 61)
    assert piece.search_for(2) is None
    assert walked == [(0, 1)]


def test_given_a_batch_past_the_end_when_searched_then_the_set_is_damaged(
    records: FileRecords,
) -> None:
    """R9: what is under the minimum, or cut off in a whole set, is no end."""
    records.append([batch(0).data, batch(1, body=bytes(9)).data[:-1]], 61 + 69)

    with pytest.raises(BatchTruncatedError) as cut:
        records.search_for(1)
    records.truncate_to(61)
    records.append([bytes(70)], 70)
    with pytest.raises(BatchCorruptError) as zeros:
        records.search_for(1)

    assert cut.value.position == zeros.value.position == 61
    assert [position for position, _ in records.batches()] == [0]


def test_given_a_file_that_became_shorter_when_walked_then_the_cut_body_is_the_end(
    records: FileRecords,
) -> None:
    """R4: the fourth silent end."""
    records.append([batch(0, body=bytes(100)).data, batch(1, body=bytes(100)).data], 322)
    records.file().truncate(321)

    found = [position for position, _ in records.batches()]

    assert found == [0]


def test_given_an_iterator_when_its_file_is_closed_meanwhile_then_it_goes_on() -> None:
    disk, records = on_fake_disk(
        b"".join(batch(offset, body=bytes(9_000)).data for offset in [0, 1])
    )
    headers = records.batches()
    first, _ = next(headers)
    records.handles.close_all()

    second, _ = next(headers)

    assert (first, second) == (0, 9_061)
    assert disk.open_files == 1


# --- failed appends ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_given_a_write_that_fails_when_appended_then_the_file_is_as_before(number: int) -> None:
    disk, records = on_fake_disk(b"before")
    disk.short_write(size=3)
    disk.fail("write", OSError(number, "refused"), after=1)

    with pytest.raises(StorageError, match="refused") as caught:
        records.append([b"garbage"], 7)

    assert caught.value.errno == number
    assert records.size_bytes == len(disk.read_file(LOG)) == 6
    assert records.append([b"after"], 5) == 6
    assert disk.read_file(LOG) == b"beforeafter"


def test_given_a_full_disk_when_space_comes_back_then_appending_goes_on() -> None:
    disk, records = on_fake_disk(b"0123456789", space_bytes=15)

    with pytest.raises(StorageError) as caught:
        records.append([b"abc", b"defghi"], 9)
    left = disk.read_file(LOG)
    disk.space_bytes = 100
    records.append([b"abc", b"defghi"], 9)

    assert caught.value.errno == errno.ENOSPC
    assert left == b"0123456789"
    assert disk.read_file(LOG) == b"0123456789abcdefghi"


def test_given_a_cut_back_that_fails_when_appended_again_then_no_garbage_stays_between() -> None:
    disk, records = on_fake_disk(b"before")
    disk.short_write(size=5)
    disk.fail("write", OSError(errno.EIO, "broken"), after=1)
    disk.fail("truncate", OSError(errno.EIO, "broken"), times=2)

    for _ in range(2):  # the append, and then the cut that has to come before the next one
        with pytest.raises(StorageError):
            records.append([b"garbage"], 7)
    records.append([b"x"], 1)

    assert disk.read_file(LOG) == b"beforex"


def test_given_a_cut_back_that_failed_when_closed_then_the_file_is_trimmed() -> None:
    """R11: close trims to the valid size."""
    disk, records = on_fake_disk(b"before")
    disk.short_write(size=5)
    disk.fail("write", OSError(errno.EIO, "broken"), after=1)
    disk.fail("truncate", OSError(errno.EIO, "broken"))
    with pytest.raises(StorageError):
        records.append([b"garbage"], 7)

    records.close()
    disk.sync_directory(Path("/"))
    disk.crash()

    assert disk.read_file(LOG) == b"before"


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.lists(st.binary(max_size=40), max_size=4)),
            st.tuples(st.just("short"), st.integers(0, 30)),
            st.tuples(st.just("full"), st.integers(0, 60)),
            st.tuples(st.just("cut"), st.integers(0, 100)),
            st.tuples(st.just("flush"), st.none()),
        ),
        max_size=20,
    )
)
@settings(max_examples=100)
def test_given_any_appends_on_a_bad_disk_when_read_then_exactly_the_successful_are_there(
    steps: list[tuple[str, list[bytes] | int | None]],
) -> None:
    """R7, R11: against a list of bytes as the model."""
    disk, records = on_fake_disk()
    expected = b""

    for name, argument in steps:
        if name == "append" and isinstance(argument, list):
            data = b"".join(argument)
            try:
                position = records.append(argument, len(data))
            except StorageError:
                continue
            assert position == len(expected)
            expected += data
        elif name == "short" and isinstance(argument, int):
            disk.short_write(size=argument)
        elif name == "full" and isinstance(argument, int):
            disk.space_bytes = len(expected) + argument
        elif name == "cut" and isinstance(argument, int):
            size = min(argument, len(expected))
            assert records.truncate_to(size) == len(expected) - size
            expected = expected[:size]
        else:
            records.flush()
            assert not records.has_unflushed
        assert disk.read_file(LOG) == expected
        assert records.size_bytes == len(expected)


def test_given_a_bad_sector_when_read_then_it_is_an_error_of_this_set_only() -> None:
    disk, records = on_fake_disk(batch(0).data)
    disk.fail("read", OSError(errno.EIO, "bad sector"), times=4)

    for read in (
        lambda: records.read_bytes(0, 1),
        lambda: records.read_into(memoryview(bytearray(1)), 0),
        lambda: records.search_for(0),
        lambda: list(records.batches()),
    ):
        with pytest.raises(StorageError) as caught:
            read()
        assert caught.value.errno == errno.EIO
    assert records.read_bytes(0, 61) == batch(0).data


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
