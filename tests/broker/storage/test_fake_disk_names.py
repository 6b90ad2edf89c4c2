"""The fake disk: names, and what a power cut makes of creations, renames and directories."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hypothesis import given

from tests.support.fake_disk import FakeDisk
from tests.support.fake_files import RANDOMS, SEEDS, A, B, contents, new_file

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
