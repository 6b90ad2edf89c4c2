"""Cleaning against a model: any log, cut into any segments, cleaned with maps of any size.

The model is a dict of the last values, of committed transactions only. What holds after any number
of passes: every record that is left is as it was, at its offset; the last value of each key is
there; no key twice where all is clean; no record of an aborted transaction; each producer's last
batch; offsets never move.
"""

from __future__ import annotations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from broker.storage.offset_map import SLOT_BYTES
from protocol.record_batch_header import parse_header
from tests.support.cleaning import SealedSegments, last_records
from tests.support.keyed_logs import STEPS, Writer, all_batches, written


def check(writer: Writer, segments: SealedSegments, *, is_clean: bool, may_lack_tombstones: bool):
    """Hold what is left against the model."""
    # What no pass has reached yet may still hold records of aborted transactions.
    left = [
        record
        for record in segments.records()
        if record.offset < segments.cleaned_offset or record.offset not in writer.aborted_offsets
    ]
    original = {record.offset: record for record in writer.stable}
    assert all(record == original.get(record.offset) for record in left)
    assert [record.offset for record in left] == sorted({record.offset for record in left})
    last = {record.key: record for record in left}
    for key, record in writer.model().items():
        if record.value is None and may_lack_tombstones:
            assert key not in last or last[key] == record
        else:
            assert last[key] == record
    if is_clean:
        assert len(left) == len(last)
    stored = {(batch.header.base_offset, batch.header.last_offset) for batch in segments.batches()}
    assert stored <= {
        (header.base_offset, header.last_offset)
        for header in map(parse_header, all_batches(writer))
    }


@given(steps=STEPS, slots=st.integers(1, 12), segment_bytes=st.sampled_from([1, 700, 1 << 20]))
def test_given_any_log_when_cleaned_in_passes_then_the_last_values_are_left(
    steps, slots, segment_bytes
):
    writer = written(steps)
    segments = writer.stored()
    last = last_records(all_batches(writer))
    options = {
        "dedupe_buffer_bytes": slots * SLOT_BYTES,
        "segment_bytes": segment_bytes,
        "last_records": last,
    }

    while True:
        segments.clean(**options)
        is_clean = segments.cleaned_offset == segments.end_offset
        check(writer, segments, is_clean=is_clean, may_lack_tombstones=False)
        if is_clean:
            break
    event(f"aborted transactions: {bool(writer.aborted_offsets)}")

    lasts = {batch.header.last_offset for batch in segments.batches()}
    assert {each.last_data_offset for each in last.values() if each.last_data_offset >= 0} <= lasts
    assert not writer.offset or writer.offset - 1 in lasts


@settings(max_examples=60)
@given(steps=STEPS)
def test_given_any_log_when_cleaned_again_after_the_retention_then_tombstones_and_markers_are_gone(
    steps,
):
    writer = written(steps)
    segments = writer.stored()

    segments.clean()  # puts the horizons in
    segments.clock.advance(ms=999)
    segments.clean()
    check(writer, segments, is_clean=True, may_lack_tombstones=False)
    segments.clock.advance(ms=1)
    segments.clean()
    segments.clean()

    check(writer, segments, is_clean=True, may_lack_tombstones=True)
    assert not [record for record in segments.records() if record.value is None]
    transactional = [each for each in segments.batches() if each.header.is_transactional]
    with_records = {each.header.producer_id for each in transactional if each.records}
    markers = [each.header for each in transactional if each.header.is_control and each.records]
    assert {marker.producer_id for marker in markers} <= with_records


@settings(max_examples=40)
@given(steps=STEPS)
def test_given_a_clean_log_when_cleaned_again_then_its_batches_are_the_same_bytes(steps):
    segments = written(steps).stored()
    segments.clean()
    segments.clean()  # markers get their horizon when their transaction's records are gone
    before = [batch.data for batch in segments.batches()]

    segments.clean()

    assert [batch.data for batch in segments.batches()] == before
