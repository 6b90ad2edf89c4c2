"""LogSegment: its files' names, times, life and end."""

from __future__ import annotations

import errno

import pytest

from broker.storage.os_disk import OsDisk
from protocol.errors import StorageError
from tests.support.segments import Workbench, fill, run


@pytest.fixture(params=["fake", "real"])
def bench(request, tmp_path):
    if request.param == "fake":
        return Workbench()
    return Workbench(disk=OsDisk(), directory=tmp_path / "topic-0")


def names(bench):
    return bench.disk.list_directory(bench.directory)


def with_transaction_index(bench):
    bench.overwrite(bench.path(".txnindex"), b"transactions")


def test_given_a_new_segment_when_made_then_its_three_files_are_there(bench):
    """R13: indexes of full size, an empty log."""
    segment = bench.create(42)

    sizes = {name: bench.disk.file_size(bench.directory / name) for name in names(bench)}

    stem = "00000000000000000042"
    assert sizes == {f"{stem}.log": 0, f"{stem}.index": 4096, f"{stem}.timeindex": 4092}
    assert segment.path == bench.path(".log", 42)


def test_given_a_missing_log_when_opened_then_it_is_an_error(bench):
    """R31: only `create` makes a segment."""
    with pytest.raises(StorageError):
        bench.open(42)

    assert names(bench) == []


def test_given_a_closed_segment_when_opened_again_then_all_is_there(bench):
    """R13, R20, R24: after a close the indexes are trimmed and complete."""
    bench.closed(run(20))

    segment = bench.open()

    assert segment.sanity_check()
    assert (segment.next_offset(), segment.largest_timestamp()) == (40, 1_191)
    assert segment.offset_for_timestamp(1_100) == (1_100, 20)
    assert bench.disk.file_size(segment.offset_index.path) == segment.offset_index.size_bytes
    assert bench.cache.index_rebuilds == 0


def test_given_an_active_segment_when_only_opened_and_closed_then_its_files_are_unchanged(bench):
    """R13: grown on open, trimmed on close."""
    bench.closed(run(20))
    before = {name: bench.disk.read_file(bench.directory / name) for name in names(bench)}

    segment = bench.open(active=True)
    grown = bench.disk.file_size(segment.offset_index.path)
    segment.close()

    assert grown == 4096
    assert {name: bench.disk.read_file(bench.directory / name) for name in names(bench)} == before


def test_given_a_leftover_when_a_segment_is_made_then_its_indexes_are_wiped(bench):
    """B4: a roll that a crash interrupted is made again; stale indexes must not survive it."""
    bench.overwrite(bench.path(".log"), b"")
    bench.overwrite(bench.path(".index"), b"\0\0\0\1\0\0\0\1")
    bench.overwrite(bench.path(".timeindex"), b"stale stale!")

    segment = bench.create()

    assert (segment.offset_index.entries, segment.time_index.entries) == (0, 0)


def test_given_missing_indexes_when_looked_up_then_they_are_built_once(bench):
    """R31, B6: segments without index get one; the result is counted."""
    bench.closed(run(20))
    for suffix in (".index", ".timeindex"):
        bench.disk.unlink(bench.path(suffix))
    segment = bench.open()
    was_sane = segment.sanity_check()

    found = segment.translate_offset(33).offset

    assert not was_sane
    assert found == 32
    assert segment.largest_timestamp() == 1_191
    assert bench.cache.index_rebuilds == 1
    assert bench.open().sanity_check()


def test_given_a_suffix_when_renamed_then_every_file_goes_along(bench):
    """R39: `.deleted`, with the transaction index too; what is open stays readable."""
    bench.closed(run(20))
    with_transaction_index(bench)
    segment = bench.open()
    _, piece = segment.read(0, 10**6, segment.size_bytes, True)

    segment.rename_suffix("", ".deleted")

    stem = "00000000000000000000"
    kinds = (".index", ".log", ".timeindex", ".txnindex")
    assert names(bench) == [f"{stem}{kind}.deleted" for kind in kinds]
    assert len(piece.read()) == segment.size_bytes
    assert segment.translate_offset(33).offset == 32
    assert bench.cache.index_rebuilds == 0


def test_given_a_swap_suffix_when_taken_off_then_the_files_have_their_plain_names(bench):
    """R31: the end of a replacement; an index that is missing is no error."""
    segment = bench.create(suffix=".swap")
    fill(segment, run(5))
    segment.seal()
    bench.disk.unlink(segment.time_index.path)

    segment.rename_suffix(".swap", "")

    assert names(bench) == ["00000000000000000000.index", "00000000000000000000.log"]
    assert segment.translate_offset(5).offset == 4


def test_given_a_segment_when_deleted_then_no_file_stays(bench):
    """R39: a missing file is no error, a second deletion neither (B12)."""
    segment = bench.create()
    fill(segment, run(5))
    with_transaction_index(bench)
    bench.disk.unlink(segment.time_index.path)

    segment.delete()
    segment.delete()

    assert names(bench) == []
    with pytest.raises(StorageError):
        segment.read(0, 1, 1, True)


def test_given_a_time_when_set_then_all_files_have_it(bench):
    """R20: the modification-time setter acts on all files of the segment."""
    bench.closed(run(5))
    with_transaction_index(bench)
    segment = bench.open()

    segment.set_modification_time_ms(1_600_000_000_000)

    times = {bench.disk.modification_time_ms(bench.directory / name) for name in names(bench)}
    assert len(names(bench)) == 4
    assert times == {1_600_000_000_000}
    assert segment.modification_time_ms() == 1_600_000_000_000


def test_given_a_renamed_directory_when_told_then_the_segment_follows(bench):
    """R39: a deleted topic's directory is renamed beneath its open segments."""
    segment = bench.create()
    fill(segment, run(9))
    renamed = bench.directory.with_name("topic-0.0123-delete")

    bench.disk.rename(bench.directory, renamed)
    segment.moved_to(renamed)
    fill(segment, run(9, 18))
    segment.close()

    bench.directory = renamed
    assert bench.open().next_offset() == 36


def test_given_few_open_files_when_many_segments_are_used_then_all_work(bench):
    """10,000 segments must not need 10,000 open files, nor three times as many."""
    for base in range(0, 400, 20):
        bench.closed(run(10, base), base)
    bench.handles.open_files_max = 4
    segments = [bench.open(base) for base in range(0, 400, 20)]

    found = [segment.translate_offset(segment.base_offset + 7).offset for segment in segments]

    assert found == [segment.base_offset + 6 for segment in segments]
    assert bench.handles.open_files <= 4


def test_given_a_failing_sync_of_the_log_when_closed_then_the_error_comes_out():
    """A failed fsync ends the process: it is never hidden, while that of an index is."""
    bench = Workbench()
    segment = bench.create()
    fill(segment, run(5))
    bench.disk.fail("sync", OSError(errno.EIO, "bad"), path_suffix=".log")

    with pytest.raises(OSError) as error:
        segment.close()

    assert error.value.errno == errno.EIO
