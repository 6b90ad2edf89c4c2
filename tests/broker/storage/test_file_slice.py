"""FileSlice and write_to: bytes go out mapped or read, never more than the file has (R10)."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.storage import mapped_files
from broker.storage.file_handles import FileHandles
from broker.storage.file_records import FileRecords
from broker.storage.file_slice import FileSlice
from broker.storage.os_disk import OsDisk
from protocol.errors import StorageError
from protocol.identifiers import Buffer
from tests.support.fake_disk import FakeDisk

STEP_BYTES = 4096
DATA = bytes(number % 251 for number in range(2 * STEP_BYTES + 100))


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Growing files are mapped in steps of one page, so that small files show it."""
    monkeypatch.setattr(mapped_files, "MAPPING_STEP_BYTES", STEP_BYTES)


@pytest.fixture
def records(tmp_path: Path) -> FileRecords:
    """A set with two mapping steps and 100 bytes, on the real disk."""
    handles = FileHandles(OsDisk(), 10, mapped_files_max=4)
    records = FileRecords.open(handles, tmp_path / "0.log", create=True)
    records.append([DATA], len(DATA))
    return records


class Transport:
    """Takes what it is given, as a transport does."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []

    def write(self, data: Buffer, /) -> None:
        self.buffers.append(data)

    def writelines(self, list_of_data: Iterable[Buffer], /) -> None:
        self.buffers.extend(list_of_data)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize(
    ("position", "size"),
    [(0, len(DATA)), (10, 20), (STEP_BYTES - 1, 2), (2 * STEP_BYTES, 100), (5, 0), (len(DATA), 0)],
)
def test_given_any_piece_when_written_to_a_transport_then_it_gets_those_bytes(
    records: FileRecords, position: int, size: int, is_sealed: bool, mapped: bool
) -> None:
    """R10: returns the bytes accepted."""
    if is_sealed:
        records.seal()
    transport = Transport()

    accepted = records.write_to(transport, position, size, mapped=mapped)

    assert accepted == size
    assert b"".join(transport.buffers) == DATA[position : position + size]


def test_given_a_sealed_file_when_sent_then_one_view_of_its_mapping_goes_out(
    records: FileRecords,
) -> None:
    """R10: without copying."""
    records.seal()

    first = FileSlice(records, 10, 8_000).buffers(mapped=True)
    second = FileSlice(records.read(100, 50), 1, 2).buffers(mapped=True)

    assert [type(buffer) for buffer in first + second] == [memoryview, memoryview]
    assert len(records.handles.mapped_files) == 1
    assert bytes(second[0]) == DATA[101:103]


def test_given_a_growing_file_when_sent_then_the_tail_is_read_and_the_rest_mapped(
    records: FileRecords,
) -> None:
    whole = FileSlice(records, 0, len(DATA)).buffers(mapped=True)
    tail = FileSlice(records, 2 * STEP_BYTES, 100).buffers(mapped=True)
    records.append([DATA], len(DATA))
    later = FileSlice(records, 0, 4 * STEP_BYTES).buffers(mapped=True)

    assert [(type(buffer), len(buffer)) for buffer in whole] == [
        (memoryview, 2 * STEP_BYTES),
        (bytes, 100),
    ]
    assert [type(buffer) for buffer in tail] == [bytes]
    assert [type(buffer) for buffer in later] == [memoryview]
    assert bytes(later[0]) == (DATA + DATA)[: 4 * STEP_BYTES]


def test_given_no_mappings_when_sent_then_the_bytes_are_read() -> None:
    records = FileRecords.open(FileHandles(FakeDisk(), 10), Path("/0.log"), create=True)
    records.append([DATA], len(DATA))
    records.seal()

    buffers = FileSlice(records, 0, len(DATA)).buffers(mapped=True)

    assert buffers == [DATA]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_given_a_file_that_became_shorter_when_sent_then_it_is_an_error(
    records: FileRecords, is_sealed: bool, mapped: bool
) -> None:
    """R10: raises if the file has become shorter than the slice; nothing is handed over."""
    if is_sealed:
        records.seal()
    transport = Transport()
    records.write_to(Transport(), 0, 10, mapped=mapped)  # it may be mapped by now
    records.file().truncate(STEP_BYTES)

    for position, size in ((0, STEP_BYTES + 1), (0, len(DATA)), (2 * STEP_BYTES, 100)):
        with pytest.raises(StorageError, match="shorter"):
            records.write_to(transport, position, size, mapped=mapped)

    assert transport.buffers == []
    assert records.write_to(transport, 0, STEP_BYTES, mapped=mapped) == STEP_BYTES


@pytest.mark.parametrize("mapped", [False, True])
def test_given_a_piece_past_the_sets_end_when_sent_then_it_is_an_error(
    records: FileRecords, mapped: bool
) -> None:
    """R10, R7: a slice never shows more than its set."""
    with pytest.raises(StorageError, match="ends before"):
        records.read(0, 50).write_to(Transport(), 40, 11, mapped=mapped)


def test_given_a_sent_view_when_the_set_is_cut_above_it_then_the_view_stays_whole(
    records: FileRecords,
) -> None:
    """A file is never cut below what readers were given."""
    [view] = FileSlice(records, 0, STEP_BYTES).buffers(mapped=True)

    records.truncate_to(STEP_BYTES)
    records.append([b"x" * STEP_BYTES], STEP_BYTES)
    [anew] = FileSlice(records, 0, 2 * STEP_BYTES).buffers(mapped=True)

    assert bytes(view) == DATA[:STEP_BYTES]
    assert bytes(anew) == DATA[:STEP_BYTES] + b"x" * STEP_BYTES


def test_given_a_sent_view_when_the_set_is_deleted_then_the_view_stays_whole(
    records: FileRecords,
) -> None:
    records.seal()
    buffers = FileSlice(records, 0, len(DATA)).buffers(mapped=True)

    records.delete()

    assert b"".join(buffers) == DATA
    assert len(records.handles.mapped_files) == 0


def test_given_a_slice_when_read_then_it_is_bytes(records: FileRecords) -> None:
    assert FileSlice(records, 1, 10).read() == DATA[1:11]


def test_given_pages_in_memory_when_asked_then_the_slice_is_not_cold(records: FileRecords) -> None:
    piece = FileSlice(records.read(50, 5_000), 10, 4_000)

    piece.read_ahead()

    assert not piece.is_cold()


def test_given_a_cold_slice_when_read_ahead_then_the_device_is_read_on_an_own_descriptor() -> None:
    disk = FakeDisk()
    records = FileRecords.open(FileHandles(disk, 10), Path("/0.log"), create=True)
    records.append([bytes(3_000_000)], 3_000_000)
    disk.operations.clear()

    FileSlice(records, 100, 2_500_000).read_ahead()

    reads = [(step.position, step.size) for step in disk.operations if step.name == "read"]
    assert reads == [(100, 1 << 20), (100 + (1 << 20), 1 << 20), (100 + (2 << 20), 402_848)]
    assert disk.open_files == records.handles.open_files


def test_given_a_bad_sector_when_read_ahead_then_it_is_a_storage_error() -> None:
    disk = FakeDisk()
    records = FileRecords.open(FileHandles(disk, 10), Path("/0.log"), create=True)
    records.append([DATA], len(DATA))
    disk.fail("read", OSError(errno.EIO, "bad sector"))

    with pytest.raises(StorageError, match="bad sector") as caught:
        FileSlice(records, 0, 100).read_ahead()

    assert caught.value.errno == errno.EIO
    assert disk.open_files == records.handles.open_files


def test_given_a_file_deleted_meanwhile_when_read_ahead_then_there_is_nothing_to_do() -> None:
    disk = FakeDisk()
    records = FileRecords.open(FileHandles(disk, 10), Path("/0.log"), create=True)
    records.append([DATA], len(DATA))
    disk.unlink(Path("/0.log"))
    disk.operations.clear()

    FileSlice(records, 0, 100).read_ahead()

    assert [operation.name for operation in disk.operations] == ["open"]
