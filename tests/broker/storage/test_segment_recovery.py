"""LogSegment.recover: what is sound, what is not, and the indexes of it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.storage import segment_recovery
from broker.storage.log_config import LogConfig
from protocol.compression import Codec
from protocol.legacy_message_set_builder import build_entry
from tests.support.segments import (
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


def stored(batches, base_offset=0, change=lambda data: data):
    """A segment of these batches, its file changed, opened as after a crash: no indexes."""
    bench = Workbench()
    data = bytearray(b"".join(each.data for each in batches))
    bench.overwrite(bench.path(".log", base_offset), bytes(change(data) or data))
    return bench, bench.open(base_offset)


def flip(at, bit=0):
    def change(data):
        data[at] ^= 1 << bit

    return change


def put(at, data):
    def change(old):
        old[at : at + len(data)] = data

    return change


@given(batches=batch_lists(1_000))
def test_given_sound_batches_when_recovered_then_all_is_kept_and_indexed(batches):
    """R23: walks the batches and rebuilds both indexes; answers are those of a full scan."""
    bench, segment = stored(batches, 1_000)
    seen = []

    found = segment.recover(lambda position, header: seen.append((position, header.base_offset)))

    assert found.valid_bytes == segment.size_bytes
    assert (found.bad_bytes, found.fault, found.later) == (0, "", None)
    assert found.next_offset == batches[-1].next_offset
    assert found.largest_timestamp == max(each.max_timestamp for each in batches)
    assert seen == [
        (position, each.base_offset)
        for position, each in zip(positions(batches), batches, strict=True)
    ]
    for offset in range(1_000, batches[-1].next_offset + 1):
        assert segment.translate_offset(offset) == scan_for_offset(batches, offset)
    for timestamp in interesting_timestamps(batches):
        assert segment.offset_for_timestamp(timestamp) == scan_for_timestamp(batches, timestamp)
    assert bench.cache.index_rebuilds == 0


def test_given_a_segment_when_recovered_then_its_indexes_are_those_of_the_appends():
    """R23, R19: recovery makes an entry where an append makes one."""
    batches = run(50)
    live = Workbench()
    live.closed(batches)

    bench, segment = stored(batches)
    segment.recover()
    segment.close()

    for suffix in (".index", ".timeindex"):
        written = live.disk.read_file(live.path(suffix))
        assert bench.disk.read_file(bench.path(suffix)) == written


def test_given_stale_indexes_when_recovered_then_nothing_of_them_stays():
    """R23: empties the indexes, resets their size."""
    bench = Workbench()
    bench.closed(run(50))
    bench.overwrite(bench.path(".log"), b"".join(each.data for each in run(3)))
    segment = bench.open()

    segment.recover()
    segment.activate()

    assert segment.offset_index.last_offset <= 5
    assert segment.time_index.last_entry.timestamp == 1_021
    assert bench.disk.file_size(segment.offset_index.path) == 4096


def test_given_an_active_segment_when_recovered_then_it_can_be_appended_to():
    """R23: what was learnt is what appends go on from."""
    batches = run(20)
    _, segment = stored(batches)
    segment.recover()
    segment.activate()

    fill(segment, run(20, base_offset=40, start_ms=2_000))
    segment.seal()

    assert segment.next_offset() == 80
    assert segment.largest_timestamp() == 2_191
    assert segment.offset_for_timestamp(1_192) == (2_000, 40)


BATCHES = run(6, base_offset=5)
BAD = 3
BAD_POSITION = positions(BATCHES)[BAD]
BAD_SIZE = len(BATCHES[BAD].data)
LATER = (BATCHES[BAD + 1].base_offset, positions(BATCHES)[BAD + 1], len(BATCHES[BAD + 1].data))

CHANGES = {
    "a bit of a record": flip(BAD_POSITION + BAD_SIZE - 3),
    "a bit of the crc": flip(BAD_POSITION + 18),
    "a bit of the attributes": flip(BAD_POSITION + 22),
    "the magic": put(BAD_POSITION + 16, b"\x03"),
    "a length too small": flip(BAD_POSITION + 11),
    "a length too large": flip(BAD_POSITION + 10, 0),
    "a length beyond the file": put(BAD_POSITION + 8, b"\x7f"),
    "a negative length": put(BAD_POSITION + 8, b"\xff"),
    "an offset that goes back": put(BAD_POSITION, struct.pack(">q", 4)),
    "an offset too high": put(BAD_POSITION, struct.pack(">q", 5 + 1024)),
    "an offset out of reach": put(BAD_POSITION, struct.pack(">q", 5 + 2**31)),
    "a negative offset": put(BAD_POSITION, struct.pack(">q", -1)),
    "a zeroed header": put(BAD_POSITION, bytes(61)),
    "a zeroed batch": put(BAD_POSITION, bytes(BAD_SIZE)),
}


@pytest.mark.parametrize("wound", CHANGES)
def test_given_damage_in_the_middle_when_recovered_then_it_is_named_and_what_follows(wound):
    """R23: checks length, CRC and offsets; reports where it is bad, and that batches follow."""
    bench, segment = stored(BATCHES, 5, CHANGES[wound])
    size = segment.size_bytes
    seen = []

    found = segment.recover(lambda position, _: seen.append(position))

    assert found.valid_bytes == BAD_POSITION
    assert found.next_offset == BATCHES[BAD].base_offset
    assert found.bad_bytes == size - BAD_POSITION
    assert found.fault
    assert found.later == LATER
    assert found.largest_timestamp == BATCHES[BAD - 1].max_timestamp
    assert seen == positions(BATCHES)[:BAD]
    assert segment.size_bytes == size == bench.disk.file_size(segment.path)  # nothing is cut


@pytest.mark.parametrize("wound", CHANGES)
def test_given_damage_that_is_kept_when_read_then_what_lies_around_it_is_found(wound):
    """R23: damage is not cut; sound batches before and behind it are found all the same."""
    _, segment = stored(BATCHES, 5, CHANGES[wound])
    found = segment.recover(judge=lambda wound, later: True)

    (kept,) = found.wounds
    assert (kept.position, kept.end_position) == (BAD_POSITION, LATER[1])
    assert (kept.first_offset, kept.next_offset) == (BATCHES[BAD].base_offset, LATER[0])
    assert (found.valid_bytes, found.next_offset) == (segment.size_bytes, BATCHES[-1].next_offset)
    before = [segment.translate_offset(offset) for offset in range(5, BATCHES[BAD].base_offset)]
    behind = [segment.translate_offset(offset) for offset in range(LATER[0], 17)]

    assert before == [scan_for_offset(BATCHES, offset) for offset in range(5, 11)]
    assert behind == [scan_for_offset(BATCHES, offset) for offset in range(LATER[0], 17)]


@pytest.mark.parametrize("wound", CHANGES)
def test_given_damage_that_is_cut_when_appended_then_the_segment_goes_on(wound):
    """R23, R25: cut at the last sound batch, with nothing left of the indexes behind it."""
    _, segment = stored(BATCHES, 5, CHANGES[wound])
    found = segment.recover()

    cut_bytes = segment.truncate_to_position(found.valid_bytes)
    segment.activate()
    new = run(10, base_offset=found.next_offset, start_ms=3_000)
    fill(segment, new)

    batches = BATCHES[:BAD] + new
    assert cut_bytes == found.bad_bytes
    assert segment.next_offset() == 31
    for offset in range(5, 32):
        assert segment.translate_offset(offset) == scan_for_offset(batches, offset)
    for timestamp in interesting_timestamps(batches):
        assert segment.offset_for_timestamp(timestamp) == scan_for_timestamp(batches, timestamp)


@pytest.mark.parametrize("cut", [1, 5, 11, 12, 16, 17, 30, 60, 61, 70, BAD_SIZE - 1])
def test_given_a_torn_tail_when_recovered_then_no_later_batch_is_seen(cut):
    """R23: the last batch cut anywhere: prefix, header or body."""
    batches = BATCHES[: BAD + 1]
    _, segment = stored(batches, 5, lambda data: data[: BAD_POSITION + cut])

    found = segment.recover()

    assert (found.valid_bytes, found.bad_bytes, found.later) == (BAD_POSITION, cut, None)
    assert found.next_offset == BATCHES[BAD].base_offset


@pytest.mark.parametrize(
    "tail",
    [bytes(4096), b"\x02" * 3000, bytes(range(256)) * 20, b"\x00" * 16 + b"\x02" + b"\x00" * 200],
    ids=["zeros", "magics", "garbage", "a magic among zeros"],
)
def test_given_garbage_behind_the_end_when_recovered_then_it_is_a_tail(tail):
    """R23, B5: preallocated zeros and garbage are no batches."""
    _, segment = stored(BATCHES, 5, lambda data: data + tail)

    found = segment.recover()

    assert found.valid_bytes == segment.size_bytes - len(tail)
    assert (found.next_offset, found.bad_bytes, found.later) == (17, len(tail), None)


def test_given_an_empty_segment_when_recovered_then_it_is_sound():
    """R23: nothing is valid, and nothing is bad."""
    _, segment = stored([], 7)

    found = segment.recover()

    assert found == (0, 7, -1, 0, "", None, ())


def test_given_a_first_batch_below_the_base_when_recovered_then_it_is_bad():
    """R23: the file's name says where its offsets begin."""
    _, segment = stored(BATCHES, 6)

    found = segment.recover()

    assert found.valid_bytes == 0
    assert found.later == (7, len(BATCHES[0].data), len(BATCHES[1].data))


def test_given_gaps_when_recovered_then_they_are_the_cleaners_work():
    """R23, B17: offsets may be missing anywhere, before the first batch too."""
    batches = [batch(100, [1, 2]), batch(250, [3]), batch(251, [4]), batch(1_000, [5])]

    _, segment = stored(batches, 5)

    assert segment.recover().fault == ""
    assert segment.translate_offset(252).offset == 1_000


def test_given_a_last_offset_at_the_limit_when_recovered_then_it_is_sound():
    """R23, R26: relative offsets up to 2^31-1."""
    batches = [batch(5, [1]), batch(5 + 2**31 - 1, [2])]

    _, segment = stored(batches, 5)

    assert segment.recover().next_offset == 5 + 2**31


def test_given_lower_limits_today_when_recovered_then_no_batch_is_cut_for_them():
    """R23: bounded by the format and the file, never by today's settings."""
    bench, segment = stored([batch(0, [1], b"x" * 5_000), *run(600, base_offset=1)])
    segment.close()
    bench.config = LogConfig(
        max_message_bytes=100, segment_bytes=200, segment_index_bytes=16, index_interval_bytes=50
    )
    segment = bench.open()

    found = segment.recover()

    assert found.fault == ""
    assert found.next_offset == 1_201
    assert segment.offset_index.entries > 500


@pytest.mark.parametrize("window_bytes", [64, 100, 1_000])
def test_given_batches_larger_than_the_window_when_recovered_then_each_byte_is_checked(
    window_bytes, monkeypatch
):
    """R23: a batch is checked piece by piece; its length asks for no memory."""
    monkeypatch.setattr(segment_recovery, "WINDOW_BYTES", window_bytes)
    batches = [batch(number, [number], bytes([number]) * 700) for number in range(5)]
    last = positions(batches)[-1]

    _, sound = stored(batches)
    _, bad = stored(batches, 0, flip(last + 650))

    assert sound.recover().fault == ""
    assert bad.recover()[:2] == (last, 4)


@given(
    wounds=st.lists(st.tuples(st.integers(0, 800), st.integers(0, 255)), max_size=4),
    length=st.integers(0, 900),
)
@example(wounds=[(0, 1), (460, 1)], length=575)  # an offset out of reach behind damage
def test_given_any_bytes_when_recovered_then_only_whole_sound_batches_count(wounds, length):
    """R23: whatever the file holds, what is called sound is a prefix of what was written."""

    def change(data):
        for at, value in wounds:
            if at < len(data):
                data[at] = value
        return data[:length]

    bench, segment = stored(BATCHES, 5, change)
    data = bench.disk.read_file(segment.path)

    found = segment.recover()

    ends = [*positions(BATCHES), sum(len(each.data) for each in BATCHES)]
    assert found.valid_bytes in ends
    assert found.valid_bytes + found.bad_bytes == len(data)
    # No CRC covers offset and leader epoch, bytes 0 to 7 and 12 to 15 of a batch.
    for position, each in zip(positions(BATCHES), BATCHES, strict=True):
        if position < found.valid_bytes:
            assert data[position + 16 : position + len(each.data)] == each.data[16:]


@pytest.mark.parametrize("magic", [0, 1])
def test_given_damaged_legacy_entries_when_recovered_then_the_bad_one_is_found(magic):
    """R23, R2: CRC-32 of legacy entries; the next one is found behind the bad one's size."""
    entries = [build_entry(n, b"k", b"v" * 40, magic=magic, timestamp=n) for n in range(5)]
    size = len(entries[0])
    bench = Workbench()
    data = bytearray(b"".join(entries))
    data[3 * size - 1] ^= 1
    bench.overwrite(bench.path(".log"), bytes(data))

    found = bench.open().recover()

    assert (found.valid_bytes, found.next_offset) == (2 * size, 2)
    assert found.later == (3, 3 * size, size)


def test_given_a_compressed_batch_with_a_flipped_bit_when_recovered_then_the_crc_tells():
    """R23: recovery decompresses nothing."""
    batches = [batch(0, [1, 2], b"x" * 90, Codec.ZSTD), batch(2, [3])]
    _, segment = stored(batches, 0, flip(len(batches[0].data) - 1))

    found = segment.recover()

    assert (found.valid_bytes, found.fault) == (0, "the crc does not match")
    assert found.later.offset == 2
