"""The fake disk itself: what was synced always survives; the rest may be lost in every way."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.clock import ManualClock
from protocol.errors import DataDirectoryError
from tests.support.fake_disk import FakeDisk, FakeFile, SimulatedCrash

A, B, C = Path("/a"), Path("/b"), Path("/c")
RANDOMS = st.randoms(use_true_random=False)
SEEDS = range(200)


def new_file(disk: FakeDisk, path: Path, data: bytes = b"", *, is_durable: bool = True) -> FakeFile:
    file = disk.open(path, create=True)
    file.write([data], 0)
    if is_durable:
        file.sync()
        disk.sync_directory(path.parent)
    return file


def contents(disk: FakeDisk) -> dict[str, bytes]:
    return {name: disk.read_file(Path("/", name)) for name in disk.list_directory(Path("/"))}


# --- what survives ----------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 2_000), st.integers(1, 1_500)),
        st.tuples(st.just("truncate"), st.integers(0, 2_000), st.just(0)),
        st.tuples(st.just("sync"), st.just(0), st.just(0)),
    ),
    max_size=12,
)


@given(steps=STEPS, later=STEPS, random=RANDOMS)
@settings(max_examples=100)
def test_given_synced_data_when_the_power_is_cut_then_only_what_came_later_may_differ(
    steps: list[tuple[str, int, int]], later: list[tuple[str, int, int]], random: Random
) -> None:
    disk = FakeDisk()
    file = new_file(disk, A)
    do(file, steps)
    file.sync()
    synced = disk.read_file(A)
    later = [step for step in later if step[0] != "sync"]

    do(file, later)
    disk.crash(random)

    found = disk.read_file(A)
    touched_from = min((position for _, position, _ in later), default=len(synced))
    assert found[: min(touched_from, len(synced))] == synced[:touched_from]
    if not later:
        assert found == synced


def do(file: FakeFile, steps: list[tuple[str, int, int]]) -> None:
    for number, (name, position, size) in enumerate(steps):
        if name == "write":
            file.write([bytes([1 + number]) * size], position)
        elif name == "truncate":
            file.truncate(position)
        else:
            file.sync()


@given(
    sizes=st.lists(st.integers(1, 1_500), min_size=1, max_size=6),
    random=RANDOMS,
)
def test_given_unsynced_appends_when_the_power_is_cut_then_each_byte_is_right_or_zero(
    sizes: list[int], random: Random
) -> None:
    """Nothing is invented: bytes of a lost write are missing or zero."""
    disk = FakeDisk()
    file = new_file(disk, A)
    written = b""
    for number, size in enumerate(sizes):
        data = bytes([1 + number]) * size
        file.write([data], len(written))
        written += data

    disk.crash(random)

    found = disk.read_file(A)
    assert len(found) <= len(written)
    assert all(byte in {0, right} for byte, right in zip(found, written, strict=False))


@given(random=RANDOMS, offset=st.integers(0, 600))
def test_given_synced_bytes_overwritten_when_the_power_is_cut_then_a_sector_is_old_or_new(
    random: Random, offset: int
) -> None:
    disk = FakeDisk()
    file = new_file(disk, A, b"o" * 4_096)
    file.write([b"n" * 2_000], offset)

    disk.crash(random)

    found = disk.read_file(A)
    assert len(found) == 4_096
    for start in range(0, 4_096, 512):
        new = bytes(
            b"n"[0] if offset <= place < offset + 2_000 else b"o"[0]
            for place in range(start, start + 512)
        )
        assert found[start : start + 512] in {b"o" * 512, new}


def fates(seed: int) -> str:
    """What happened to two appends of 1,000 bytes each."""
    disk = FakeDisk()
    file = new_file(disk, A)
    file.write([b"1" * 1_000], 0)
    file.write([b"2" * 1_000], 1_000)
    disk.crash(Random(seed))
    found = disk.read_file(A)
    if found.startswith(bytes(1_000)) and found[1_000:] == b"2" * 1_000:
        return "a hole, then a whole write"
    if found == b"1" * 1_000 + b"2" * 1_000:
        return "all"
    if not found:
        return "nothing"
    if found == b"1" * 1_000:
        return "the first"
    if found.startswith(b"1" * 1_000) and set(found[1_000:]) == {b"2"[0]}:
        return "a prefix"
    if bytes(512) in found and len(found) == 2_000:
        return "torn sectors"
    return "other"


def test_given_many_seeds_when_the_power_is_cut_then_every_fate_is_met() -> None:
    met = {fates(seed) for seed in SEEDS}

    assert met >= {
        *("a hole, then a whole write", "all", "nothing", "the first"),
        *("a prefix", "torn sectors"),
    }


def test_given_the_same_seed_when_the_power_is_cut_then_the_same_is_left() -> None:
    assert [fates(seed) for seed in SEEDS] == [fates(seed) for seed in SEEDS]


def test_given_no_random_numbers_when_the_power_is_cut_then_all_unsynced_is_lost() -> None:
    disk = FakeDisk()
    file = new_file(disk, A, b"old")
    file.write([b"new"], 0)
    file.truncate(1)
    new_file(disk, B, b"gone", is_durable=False).sync()
    disk.rename(A, C)

    disk.crash()

    assert contents(disk) == {"a": b"old"}


def test_given_a_lost_truncation_when_the_power_is_cut_then_later_writes_are_lost_too() -> None:
    """As a journal does: stale bytes do not come back behind new ones."""
    found = set()
    for seed in SEEDS:
        disk = FakeDisk()
        file = new_file(disk, A, b"old" * 10)
        file.truncate(3)
        file.write([b"NEW"], 3)
        disk.crash(Random(seed))
        found.add(disk.read_file(A))

    assert {b"old" * 10, b"old", b"oldNEW"} <= found
    assert all(data == b"old" * 10 or len(data) <= 6 for data in found)


# --- names ------------------------------------------------------------------------------------


def test_given_an_unsynced_entry_when_the_power_is_cut_then_a_synced_file_may_vanish() -> None:
    """The data was synced, the directory was not."""
    found = set()
    for seed in SEEDS:
        disk = FakeDisk()
        new_file(disk, A, b"data", is_durable=False).sync()
        disk.crash(Random(seed))
        found.add(tuple(contents(disk).items()))

    assert found == {(), (("a", b"data"),)}


@given(random=RANDOMS)
def test_given_a_rename_over_a_file_when_the_power_is_cut_then_it_is_whole_or_not_at_all(
    random: Random,
) -> None:
    disk = FakeDisk()
    new_file(disk, A, b"new")
    new_file(disk, B, b"old")

    disk.rename(A, B)
    disk.crash(random)

    assert contents(disk) in ({"a": b"new", "b": b"old"}, {"b": b"new"})


def test_given_changes_of_one_name_when_the_power_is_cut_then_their_order_holds() -> None:
    found = set()
    for seed in SEEDS:
        disk = FakeDisk()
        new_file(disk, A, b"first", is_durable=False).sync()
        disk.rename(A, B)
        new_file(disk, A, b"second", is_durable=False).sync()
        disk.unlink(B)
        disk.crash(Random(seed))
        found.add(tuple(contents(disk).items()))

    first, second = b"first", b"second"
    assert found == {
        (),
        (("a", first),),
        (("b", first),),
        (("a", second), ("b", first)),
        (("a", second),),
    }


def test_given_a_synced_directory_when_the_power_is_cut_then_its_changes_stay() -> None:
    disk = FakeDisk()
    new_file(disk, A, b"a")
    new_file(disk, B, b"b")
    disk.make_directory(Path("/d"))
    disk.rename(A, Path("/d/a"))
    disk.unlink(B)
    inner = new_file(disk, Path("/d/c"), b"c", is_durable=False)
    inner.sync()

    disk.sync_directory(Path("/d"))
    disk.sync_directory(Path("/"))
    disk.crash()

    assert disk.list_directory(Path("/")) == ["d"]
    assert disk.list_directory(Path("/d")) == ["a", "c"]


def test_given_a_rename_between_directories_when_one_is_synced_then_it_is_whole() -> None:
    disk = FakeDisk()
    disk.make_directory(Path("/d"))
    disk.sync_directory(Path("/"))
    new_file(disk, A, b"a", is_durable=False).sync()
    disk.rename(A, Path("/d/a"))

    disk.sync_directory(Path("/d"))
    disk.crash()

    assert disk.list_directory(Path("/")) == ["d"]
    assert disk.read_file(Path("/d/a")) == b"a"


def test_given_a_lost_directory_when_the_power_is_cut_then_its_files_are_lost() -> None:
    disk = FakeDisk()
    disk.make_directory(Path("/d"))
    new_file(disk, Path("/d/a"), b"a")

    disk.crash()

    assert not disk.exists(Path("/d"))


def test_given_a_file_when_asked_then_durable_means_its_bytes_and_its_name() -> None:
    disk = FakeDisk()
    file = new_file(disk, A, b"a", is_durable=False)

    before = disk.is_durable(A)
    file.sync()
    without_its_name = disk.is_durable(A)
    disk.sync_directory(Path("/"))
    with_both = disk.is_durable(A)
    file.write([b"x"], 0)

    assert (before, without_its_name, with_both) == (False, False, True)
    assert not disk.is_durable(A)
    assert not disk.is_durable(B)


# --- the end of a process ---------------------------------------------------------------------


def test_given_a_killed_process_when_read_then_the_page_cache_is_still_there() -> None:
    disk = FakeDisk()
    file = new_file(disk, A, b"unsynced", is_durable=False)
    disk.lock(B)

    disk.kill()

    assert disk.read_file(A) == b"unsynced"
    assert not disk.is_durable(A)
    disk.lock(B)
    with pytest.raises(OSError) as caught:
        file.read(1, 0)
    assert caught.value.errno == errno.EBADF


def test_given_a_crash_when_old_handles_are_used_then_they_are_dead() -> None:
    disk = FakeDisk()
    file = new_file(disk, A, b"data")

    disk.crash(Random(0))

    for use in (
        lambda: file.write([b"x"], 0),
        lambda: file.truncate(0),
        file.sync,
        file.size,
        lambda: file.map(1),
    ):
        with pytest.raises(OSError):
            use()
    assert disk.read_file(A) == b"data"
    assert disk.open_files == 0


@pytest.mark.parametrize("changes", range(7))
def test_given_a_crash_after_some_changes_when_they_are_done_then_the_next_never_happens(
    changes: int,
) -> None:
    disk = FakeDisk()
    disk.operations.clear()
    disk.crash_after(changes)

    with pytest.raises(SimulatedCrash):
        six_changes_and_one(disk)
    with pytest.raises(SimulatedCrash):
        disk.make_directory(B)

    names = [operation.name for operation in disk.changes()]
    assert names == ["create", "write", "sync", "sync_directory", "truncate", "unlink"][:changes]
    disk.crash()
    assert contents(disk) == ({"a": b"data"} if changes >= 4 else {})


def six_changes_and_one(disk: FakeDisk) -> None:
    file = new_file(disk, A, b"data")  # create, write, sync, sync_directory
    file.truncate(1)
    disk.unlink(A)
    disk.make_directory(B)


def test_given_a_crash_when_it_is_over_then_the_disk_works_again() -> None:
    disk = FakeDisk()
    disk.crash_after(0)
    disk.fail("write", OSError(errno.EIO, "broken"))
    disk.short_write(size=1)

    disk.crash()
    new_file(disk, A, b"data")

    assert contents(disk) == {"a": b"data"}


# --- faults -----------------------------------------------------------------------------------


def test_given_a_fault_when_its_turn_comes_then_those_calls_fail_and_no_others() -> None:
    disk = FakeDisk()
    a, b = new_file(disk, A), new_file(disk, B)
    disk.fail("write", OSError(errno.EIO, "broken"), after=1, times=2, path_suffix="a")

    outcomes = []
    for file in (a, b, a, b, a, a):
        try:
            outcomes.append(file.write([b"x"], 0))
        except OSError as error:
            outcomes.append(error.errno or 0)

    assert outcomes == [1, 1, errno.EIO, 1, errno.EIO, 1]


def test_given_a_failed_sync_when_the_next_succeeds_then_the_bytes_may_be_lost_all_the_same() -> (
    None
):
    """As Linux does: the pages count as clean, the cache still shows them."""
    left = set()
    for seed in SEEDS:
        disk = FakeDisk(seed=seed)
        file = new_file(disk, A, b"old ")
        file.write([b"lost?"], 4)
        disk.fail("sync", OSError(errno.EIO, "broken"))
        with pytest.raises(OSError):
            file.sync()
        file.write([b" later"], 9)
        file.sync()
        from_the_cache = disk.read_file(A)
        file.drop_cached_pages(0, 0)
        from_the_device = disk.read_file(A)
        disk.crash()

        assert from_the_cache == b"old lost? later"
        assert from_the_device == disk.read_file(A)
        assert from_the_device.startswith(b"old ")
        assert from_the_device.endswith(b" later")
        left.add(from_the_device[4:9])

    assert {b"lost?", bytes(5)} <= left


def test_given_dirty_pages_when_the_cache_is_dropped_then_they_stay() -> None:
    disk = FakeDisk()
    file = new_file(disk, A, b"clean")
    file.write([b"DIRTY"], 5)

    file.drop_cached_pages(0, 0)

    assert disk.read_file(A) == b"cleanDIRTY"


def test_given_short_writes_when_their_turn_comes_then_they_accept_less() -> None:
    disk = FakeDisk()
    file = new_file(disk, A)
    disk.short_write(after=1, size=2)

    accepted = [file.write([b"abc", b"def"], 0) for _ in range(3)]

    assert accepted == [6, 2, 6]


def test_given_little_space_when_written_then_it_is_short_then_full_until_there_is_room() -> None:
    disk = FakeDisk(space_bytes=10)
    a, b = new_file(disk, A), new_file(disk, B)

    accepted = [a.write([b"x" * 6], 0), b.write([b"x" * 6], 0), a.write([b"y" * 6], 0)]
    free_bytes = disk.free_bytes(Path("/"))
    with pytest.raises(OSError) as caught:
        b.write([b"x"], 4)
    a.truncate(1)

    assert accepted == [6, 4, 6]
    assert free_bytes == 0
    assert caught.value.errno == errno.ENOSPC
    assert b.write([b"x"], 4) == 1


def test_given_a_bound_of_open_files_when_passed_then_there_are_no_descriptors() -> None:
    disk = FakeDisk()
    disk.open_files_max = 1
    file = disk.open(A, create=True)

    with pytest.raises(OSError) as caught:
        disk.open(B, create=True)
    file.close()

    assert caught.value.errno == errno.EMFILE
    assert not disk.exists(B)
    disk.open(B, create=True)


def test_given_a_lock_when_taken_twice_then_the_second_is_refused() -> None:
    disk = FakeDisk()
    disk.lock(A)

    with pytest.raises(DataDirectoryError):
        disk.lock(A)


def test_given_a_clock_when_written_then_the_file_has_its_time() -> None:
    clock = ManualClock(now_ms=1_000)
    disk = FakeDisk(clock=clock)
    file = new_file(disk, A)

    created_ms = disk.modification_time_ms(A)
    clock.advance(ms=50)
    file.write([b"x"], 0)

    assert (created_ms, disk.modification_time_ms(A)) == (1_000, 1_050)
