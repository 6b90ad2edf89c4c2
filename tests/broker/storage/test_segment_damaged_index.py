"""An index is a hint: whatever its file holds, look-ups answer as a full scan of the log does."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from tests.support.segments import (
    Batch,
    Workbench,
    batch,
    batch_lists,
    fill,
    interesting_timestamps,
    positions,
    run,
    scan_for_offset,
    scan_for_timestamp,
)

BASE = 100
SUFFIXES = (".index", ".timeindex")

# Equal and falling timestamps, so that a wrong entry has as many ways as can be to look right.
TRICKY_TIMES = [16, 16, 48, 16, 17, 48, 48, 32, 49, 18, 48, 56, 48, 16, 57, 57]


def tricky_batches() -> list[Batch]:
    return [
        batch(BASE + 2 * number, [time, max(0, time - number % 3)], b"v" * 30)
        for number, time in enumerate(TRICKY_TIMES)
    ]


def stored(batches: list[Batch]) -> Workbench:
    bench = Workbench()
    bench.closed(batches, BASE)
    return bench


def expect_all_answers(segment, batches: list[Batch]) -> None:
    """Compare every look-up, and a read, with the scan."""
    for timestamp in interesting_timestamps(batches):
        found = segment.offset_for_timestamp(timestamp)
        assert found == scan_for_timestamp(batches, timestamp), timestamp
    for offset in range(BASE, batches[-1].next_offset + 2):
        scanned = scan_for_offset(batches, offset)
        assert segment.translate_offset(offset) == scanned, offset
        answer = segment.read(offset, 1, segment.size_bytes, True)
        if scanned is None:
            assert answer is None
        else:
            assert (answer[1].position, answer[1].size_bytes) == scanned[1:]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("active", [False, True])
def test_given_any_one_flipped_bit_when_looked_up_then_no_answer_changes(suffix, active):
    """R17, R21, R33, B3: no flipped bit in an index may ever change an answer; each one is tried.

    Nor the largest timestamp (R20), by which segments are chosen and deleted.
    """
    batches = tricky_batches()
    bench = stored(batches)
    path = bench.path(suffix, BASE)
    data = bench.disk.read_file(path)
    assert len(data) >= 48

    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        bench.overwrite(path, bytes(flipped))
        segment = bench.open(BASE, active=active)
        segment.sanity_check()
        first = bit % 2  # the order of look-ups must not matter
        for step in (first, 1 - first):
            if step:
                assert segment.largest_timestamp() == 57, bit
                assert segment.next_offset() == batches[-1].next_offset, bit
            else:
                expect_all_answers(segment, batches)
        assert bench.cache.index_rebuilds <= 1
        segment.close()
        bench.overwrite(path, data)


@st.composite
def wounds(draw):
    """What may become of an index file."""
    kind = draw(
        st.sampled_from(["bytes", "cut", "zeros", "garbage", "swapped", "reversed", "more"])
    )
    amount, seed = draw(st.integers(1, 60)), draw(st.integers(0, 2**32))
    return kind, amount, seed, draw(st.binary(min_size=1, max_size=30))


def wounded(data: bytes, wound, entry_bytes: int) -> bytes:
    kind, amount, seed, junk = wound
    result = bytearray(data)
    at = seed % (len(data) + 1)
    if kind == "bytes":
        for number, byte in enumerate(junk):
            if data:
                result[(at + number * 7) % len(data)] ^= byte
    elif kind == "cut":
        del result[at:]
    elif kind == "zeros":
        result[at : at + amount] = bytes(len(result[at : at + amount]))
    elif kind == "garbage":
        result[at : at + len(junk)] = junk
    elif kind == "more":
        result += junk * (amount // 10)
    else:
        entries = [data[n : n + entry_bytes] for n in range(0, len(data), entry_bytes)]
        if kind == "reversed":
            entries.reverse()
        elif entries:
            first, second = at % len(entries), amount % len(entries)
            entries[first], entries[second] = entries[second], entries[first]
        result = bytearray(b"".join(entries))
    return bytes(result)


@given(
    batches=batch_lists(BASE, max_size=30), wound=wounds(), other=st.none() | wounds(),
    active=st.booleans(), checked=st.booleans(),
)  # fmt: skip
def test_given_any_damage_to_the_indexes_when_looked_up_then_no_answer_changes(
    batches, wound, other, active, checked
):
    """R17, R21, R22, R33, B1, B3: random corruption of one or both, against a full scan."""
    bench = stored(batches)
    for suffix, each, entry_bytes in ((".index", wound, 8), (".timeindex", other or wound, 12)):
        path = bench.path(suffix, BASE)
        if suffix == ".index" or other is not None:
            bench.overwrite(path, wounded(bench.disk.read_file(path), each, entry_bytes))
    segment = bench.open(BASE, active=active)
    if checked:
        segment.sanity_check()

    expect_all_answers(segment, batches)

    assert segment.next_offset() == batches[-1].next_offset


@given(batches=batch_lists(BASE, max_size=30), wound=wounds(), active=st.booleans())
def test_given_a_damaged_time_index_when_looked_up_then_no_answer_changes(batches, wound, active):
    """R33: the time index alone is damaged, so that nothing else has it built anew."""
    bench = stored(batches)
    path = bench.path(".timeindex", BASE)
    bench.overwrite(path, wounded(bench.disk.read_file(path), wound, 12))

    segment = bench.open(BASE, active=active)

    expect_all_answers(segment, batches)


@given(batches=batch_lists(BASE, max_size=20), wound=wounds())
def test_given_a_damaged_index_when_appended_then_the_records_stand(batches, wound):
    """R18, B16: a bad last entry is found before the first append, and never fails it."""
    bench = stored(batches)
    for suffix, entry_bytes in ((".index", 8), (".timeindex", 12)):
        path = bench.path(suffix, BASE)
        bench.overwrite(path, wounded(bench.disk.read_file(path), wound, entry_bytes))
    segment = bench.open(BASE, active=True)

    new = run(8, batches[-1].next_offset, start_ms=1_800_000_000_000)
    fill(segment, new)
    segment.seal()

    expect_all_answers(segment, batches + new)


def test_given_an_entry_beyond_the_end_when_appended_then_it_is_built_anew_and_records_stand():
    """R18, B16: an index error after the write would make the next append use the offsets again."""
    batches = run(10, BASE)
    bench = Workbench()
    segment = bench.create(BASE)
    fill(segment, batches)
    segment.offset_index.append(BASE + 10_000, 1_000_000)

    new = run(10, BASE + 20, start_ms=2_000)
    found = fill(segment, new)

    assert found == positions(batches + new)[10:]
    assert bench.cache.index_rebuilds == 1
    expect_all_answers(segment, batches + new)


def test_given_batches_stored_as_values_when_an_entry_points_at_one_then_it_is_not_believed():
    """R21, B3: a value may be a whole batch, CRC and offsets right: a backup topic."""
    inner = [batch(BASE + 2 * number, [1_000, 9_999]) for number in range(12)]
    outer = [
        Batch(
            bytes(build_batch(
                [
                    Record(each.base_offset, 50 + number, None, b"x" * 100),
                    Record(each.last_offset, 51 + number, None, each.data),
                ],
                base_offset=each.base_offset,
            )),
            each.base_offset, each.last_offset, (50 + number, 51 + number),
        )
        for number, each in enumerate(inner)
    ]  # fmt: skip
    bench = stored(outer)
    path = bench.path(".index", BASE)
    entries = list(struct.iter_unpack(">ii", bench.disk.read_file(path)))
    log = b"".join(each.data for each in outer)
    relative, position = entries[3]
    number = positions(outer).index(position)
    nested = log.index(inner[number].data, position)
    entries[3] = (relative, nested)
    bench.overwrite(path, b"".join(struct.pack(">ii", *entry) for entry in entries))

    segment = bench.open(BASE)

    expect_all_answers(segment, outer)
    assert bench.cache.index_rebuilds == 1


def test_given_a_good_index_when_looked_up_then_it_is_used_and_not_rebuilt():
    """R15: the checks are cheap: they do not read the whole log."""
    batches = run(1_000, BASE)
    bench = stored(batches)
    segment = bench.open(BASE)
    segment.translate_offset(BASE)
    before = len(bench.disk.operations)

    found = segment.translate_offset(BASE + 1_501)
    time = segment.offset_for_timestamp(1_000 + 10 * 900)

    reads = [each for each in bench.disk.operations[before:] if each.path.suffix == ".log"]
    assert (found.offset, time.offset) == (BASE + 1_500, BASE + 1_800)
    assert len(reads) < 20
    assert bench.cache.index_rebuilds == 0


def test_given_a_disk_that_cannot_write_when_the_index_is_bad_then_answers_stay_right():
    """R18: a rebuilt index that cannot be stored is used from memory, or done without."""
    batches = run(30, BASE)
    bench = stored(batches)
    path = bench.path(".index", BASE)
    bench.overwrite(path, bytes(8) + bench.disk.read_file(path)[:-8][::-1])
    bench.disk.fail("write", OSError(5, "bad"), times=10**6)
    bench.disk.fail("truncate", OSError(5, "bad"), times=10**6)
    segment = bench.open(BASE)

    expect_all_answers(segment, batches)

    assert bench.cache.index_rebuilds >= 1
