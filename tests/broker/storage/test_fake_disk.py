"""The fake disk itself: what was synced always survives; the rest may be lost in every way."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.fake_disk import FakeDisk, FakeFile
from tests.support.fake_files import RANDOMS, SEEDS, A, B, C, contents, new_file

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
