"""LogSegment: finding offsets and timestamps, and reading from there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.compression import Codec
from protocol.errors import BatchCorruptError, InvalidRequestError
from protocol.legacy_message_set_builder import build_entry, build_set
from protocol.record_batch import Record, TimestampType
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

WHOLE = 10**9


def read(segment, offset, max_bytes=WHOLE, *, max_position=WHOLE, min_one=True):
    """Metadata as a tuple, and the bytes."""
    answer = segment.read(offset, max_bytes, max_position, min_one)
    if answer is None:
        return None
    metadata, piece = answer
    place = (metadata.message_offset, metadata.segment_base_offset, metadata.position)
    return place, b"" if piece is None else piece.read()


@pytest.fixture
def batches():
    """Offsets 10 to 29, two in a batch, then a gap, then 40 to 49."""
    return run(10, 10) + run(5, 40, start_ms=2_000)


@pytest.fixture
def segment(batches):
    bench = Workbench()
    segment = bench.create(10)
    fill(segment, batches)
    return segment


# --- R21 -----------------------------------------------------------------------------------------


@given(batches=batch_lists(1_000), sealed=st.booleans())
def test_given_any_batches_when_an_offset_is_translated_then_it_is_as_by_a_full_scan(
    batches, sealed
):
    """R21: index look-up, then a search; offsets in gaps go to the batch behind."""
    bench = Workbench()
    segment = bench.create(1_000)
    fill(segment, batches)
    if sealed:
        segment.seal()

    asked = range(1_000, batches[-1].next_offset + 2)

    assert [segment.translate_offset(offset) for offset in asked] == [
        scan_for_offset(batches, offset) for offset in asked
    ]


def test_given_a_position_when_an_offset_is_translated_then_the_search_starts_there(
    segment, batches
):
    """R21: from the larger of both positions."""
    later = positions(batches)[6]

    found = segment.translate_offset(12, later)

    assert found == (batches[6].base_offset, later, len(batches[6].data))


# --- R22 -----------------------------------------------------------------------------------------


def test_given_an_offset_inside_a_batch_when_read_then_the_whole_batch_and_all_behind_come(
    segment, batches
):
    """R22: from the batch that holds the offset on; the metadata names the asked offset."""
    place, data = read(segment, 13)

    assert place == (13, 10, positions(batches)[1])
    assert data == b"".join(each.data for each in batches[1:])


def test_given_an_offset_in_a_gap_when_read_then_the_next_batch_answers(segment, batches):
    """R22, B17: holes in offsets are legal."""
    place, data = read(segment, 35, 1)

    assert place == (35, 10, positions(batches)[10])
    assert data == batches[10].data


def test_given_no_offset_at_or_above_when_read_then_there_is_no_answer(segment):
    """R22: no batch at or above offset: None."""
    answers = [read(segment, offset) for offset in (50, 51, 10**15)]

    assert answers == [None, None, None]
    assert read(Workbench().create(), 0) is None


@pytest.mark.parametrize("min_one", [False, True])
def test_given_no_bytes_wanted_when_read_then_there_is_metadata_only(segment, batches, min_one):
    """R22: `max_bytes` 0 answers empty, with metadata."""
    place, data = read(segment, 20, 0, min_one=min_one)

    assert place == (20, 10, positions(batches)[5])
    assert data == b""


def test_given_negative_max_bytes_when_read_then_it_is_an_error(segment):
    """R22: `max_bytes` negative is an error."""
    with pytest.raises(InvalidRequestError):
        read(segment, 20, -1)

    assert read(segment, 20, 1) is not None


def test_given_few_bytes_wanted_when_read_then_only_min_one_gives_a_whole_batch(segment, batches):
    """R22: min(max_bytes, bytes to max_position), but the first batch whole when `min_one`."""
    size = len(batches[0].data)

    sizes = [
        (len(read(segment, 10, wanted)[1]), len(read(segment, 10, wanted, min_one=False)[1]))
        for wanted in (1, size, size + 5)
    ]

    assert sizes == [(size, 1), (size, size), (size + 5, size + 5)]


def test_given_a_max_position_when_read_then_nothing_behind_it_is_seen(segment, batches):
    """R22: never beyond `max_position`, `min_one` or not."""
    second = positions(batches)[1]

    sizes = [len(read(segment, 10, 1, max_position=each)[1]) for each in (0, 7, second)]

    assert sizes == [0, 7, second]
    assert read(segment, 12, max_position=second)[1] == b""


def test_given_an_append_after_a_read_when_the_slice_is_read_then_it_is_what_it_was(
    segment, batches
):
    """R22: a slice is a piece of the file, not of its future."""
    _, piece = segment.read(48, WHOLE, WHOLE, True)

    fill(segment, [batch(50, [3_000])])

    assert piece.read() == batches[-1].data


# --- R24 -----------------------------------------------------------------------------------------


def test_given_batches_when_loaded_then_the_next_offset_is_scanned_for(batches):
    """R24: from the last index entry; a batch's last offset counts, not its records."""
    bench = Workbench()
    bench.closed(batches, 10)

    segment = bench.open(10)

    assert segment.next_offset() == 50


def test_given_no_index_entry_when_loaded_then_the_scan_starts_at_the_start():
    """R24: from the start if there is no entry; base offset when empty."""
    bench = Workbench()
    bench.closed([batch(7, [1, 2, 3])], 7)
    bench.closed([], 50)

    next_offsets = [bench.open(7).next_offset(), bench.open(50).next_offset()]

    assert next_offsets == [10, 50]


def test_given_many_batches_when_loaded_then_only_the_end_is_read():
    """R24: the scan starts at the last index entry."""
    bench = Workbench()
    bench.closed(run(1_000))
    segment = bench.open()
    before = len(bench.disk.operations)

    next_offset = segment.next_offset()

    reads = [each for each in bench.disk.operations[before:] if each.name == "read"]
    assert next_offset == 2_000
    assert all(each.size <= 8 * 1024 for each in reads if each.path.suffix == ".log")
    assert len(reads) < 10


def test_given_a_damaged_end_when_loaded_then_it_is_an_error():
    """R24: garbage behind the last batch does not pass for the end (B5)."""
    bench = Workbench()
    bench.closed(run(10))
    path = bench.path(".log")
    data = bench.disk.read_file(path)
    bench.overwrite(path, data + bytes(100))

    with pytest.raises(BatchCorruptError) as error:
        bench.open().next_offset()

    assert error.value.position == len(data)


# --- R33 -----------------------------------------------------------------------------------------


@given(batches=batch_lists(1_000), sealed=st.booleans(), data=st.data())
def test_given_any_timestamps_when_looked_up_then_it_is_as_by_a_full_scan(batches, sealed, data):
    """R33: time index, offset index, then a scan to the first record late enough, in log order."""
    bench = Workbench()
    segment = bench.create(1_000)
    fill(segment, batches)
    if sealed:
        segment.seal()
    from_offset = data.draw(st.integers(999, batches[-1].next_offset + 1))

    for timestamp in interesting_timestamps(batches):
        for start in (0, from_offset):
            found = segment.offset_for_timestamp(timestamp, start)
            assert found == scan_for_timestamp(batches, timestamp, start)


def test_given_equal_timestamps_in_one_append_when_looked_up_then_the_first_is_found():
    """R33: Kafka enters the last offset of such an append; the first record is before it."""
    bench = Workbench()
    segment = bench.create()
    fill(segment, run(10))
    same = [batch(20 + number, [5_000], b"v" * 100) for number in range(20)]

    size = sum(len(each.data) for each in same)
    segment.append(39, 5_000, 39, [each.data for each in same], size)
    fill(segment, [batch(40, [6_000])])

    assert segment.offset_for_timestamp(5_000) == (5_000, 20)


@pytest.mark.parametrize("codec", list(Codec))
def test_given_a_compressed_batch_when_looked_up_then_its_records_are_searched(codec):
    """R33: a record in the middle of a compressed batch."""
    bench = Workbench()
    segment = bench.create()
    fill(segment, [batch(0, [100, 300, 200, 400], b"v" * 90, codec), batch(4, [500])])

    found = [segment.offset_for_timestamp(time) for time in (101, 301, 401, 501)]

    assert found == [(300, 1), (400, 3), (500, 4), None]


def test_given_log_append_time_when_looked_up_then_the_batchs_time_counts():
    """R33: with LogAppendTime every record has the batch's largest timestamp."""
    records = [Record(number, 100 + number, None, b"v") for number in range(3)]
    data = build_batch(
        [record._replace(timestamp=900) for record in records],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    segment = Workbench().create()
    segment.append(2, 900, 2, [data], len(data))

    found = [segment.offset_for_timestamp(900, start) for start in (0, 1)]

    assert found == [(900, 0), (900, 1)]
    assert segment.offset_for_timestamp(901) is None


def mixed_magics():
    """Magic 0, then 1 (plain and wrapped), then 2: their offsets, largest timestamps, bytes."""
    inner = [Record(offset, 1_000 + offset, None, b"v" * 30) for offset in (6, 7, 8)]
    wrapper = build_set(inner, magic=1, codec=Codec.GZIP)
    return [
        *(Batch(build_entry(n, None, b"v" * 70, magic=0), n, n, (-1,)) for n in range(4)),
        *(
            Batch(build_entry(n, b"k", b"v" * 70, magic=1, timestamp=500 + n), n, n, (500 + n,))
            for n in (4, 5)
        ),
        Batch(wrapper, 8, 8, (1_008,)),
        batch(9, [2_000, 2_001]),
        batch(11, [2_002]),
    ]


@pytest.mark.parametrize("end", ["active", "sealed", "recovered", "rebuilt"])
def test_given_mixed_magics_when_looked_up_then_all_are_found(end):
    """R21, R23, R24, R33: one segment may hold message formats v0, v1 and v2."""
    bench = Workbench()
    entries = mixed_magics()
    segment = bench.create()
    fill(segment, entries)
    if end != "active":
        segment.seal()
        segment.close()
        segment = bench.open()
    if end == "recovered":
        assert segment.recover().fault == ""
    if end == "rebuilt":
        segment.rebuild_indexes()

    translated = [segment.translate_offset(offset) for offset in range(13)]
    times = [segment.offset_for_timestamp(time) for time in (0, 505, 506, 1_007, 1_009, 2_001)]

    assert translated == [scan_for_offset(entries, offset) for offset in range(13)]
    assert times == [(504, 4), (505, 5), (1_006, 6), (1_007, 7), (2_000, 9), (2_001, 10)]
    assert segment.next_offset() == 12
    assert segment.largest_timestamp() == 2_002
    assert bench.cache.index_rebuilds == (end == "rebuilt")
