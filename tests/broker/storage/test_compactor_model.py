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
from protocol.compression import Codec
from protocol.end_transaction_marker import EndTransactionMarker, build_marker_batch
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import parse_header
from protocol.stored.transaction_index import AbortedTransaction
from tests.support.cleaning import NOW_MS, SealedSegments, last_records

KEYS = st.sampled_from([b"", b"a", b"b", b"c", b"dd", b"e" * 100])
VALUES = st.one_of(st.none(), st.binary(max_size=12))
RECORDS = st.lists(st.tuples(KEYS, VALUES, st.integers(-50, 50)), min_size=1, max_size=5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), RECORDS, st.sampled_from(Codec)),
        st.tuples(st.sampled_from(["p1", "p2"]), RECORDS, st.sampled_from([Codec.NONE])),
        st.tuples(st.sampled_from(["t1", "t2"]), RECORDS, st.sampled_from([Codec.NONE, Codec.LZ4])),
        st.tuples(st.sampled_from(["commit1", "commit2", "abort1", "abort2"])),
        st.tuples(st.just("roll")),
    ),
    max_size=25,
)


class Writer:
    """Makes a log of steps, and the model beside it."""

    def __init__(self) -> None:
        self.offset = 0
        self.segments: list[tuple[int, list[bytes], list[AbortedTransaction]]] = [(0, [], [])]
        self.open: dict[int, list[Record]] = {}
        self.stable: list[Record] = []
        self.aborted_offsets: set[int] = set()
        self.sequences: dict[int, int] = {}

    def tell(self, steps) -> None:
        for step in steps:
            kind = step[0]
            if kind == "roll":
                self.roll()
            elif kind.startswith(("commit", "abort")):
                self.end(int(kind[-1]) + 10, is_commit=kind.startswith("commit"))
            else:
                self.append(kind, step[1], step[2])
        for producer_id in list(self.open):
            self.end(producer_id, is_commit=True)

    def roll(self) -> None:
        if self.segments[-1][1]:
            self.segments.append((self.offset, [], []))

    def append(self, kind, drawn, codec) -> None:
        records = [
            Record(self.offset + number, NOW_MS + time, key, value, (("h", key),))
            for number, (key, value, time) in enumerate(drawn)
        ]
        options = {"base_offset": self.offset, "codec": codec, "leader_epoch": len(drawn)}
        if kind != "plain":
            producer_id = int(kind[-1]) + (10 if kind[0] == "t" else 0)
            sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = sequence + len(records)
            options |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        if kind[0] == "t":
            options["is_transactional"] = True
            self.open.setdefault(producer_id, []).extend(records)
        else:
            self.stable += records
        self.segments[-1][1].append(build_batch(records, **options))
        self.offset += len(records)

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        records = self.open.pop(producer_id, None)
        if records is None:
            return
        if is_commit:
            self.stable += records
        else:
            self.aborted_offsets |= {record.offset for record in records}
            entry = AbortedTransaction(producer_id, records[0].offset, self.offset, self.offset + 1)
            self.segments[-1][2].append(entry)
        marker = EndTransactionMarker(is_commit, coordinator_epoch=3, timestamp=NOW_MS)
        self.segments[-1][1].append(
            build_marker_batch(
                marker, producer_id=producer_id, producer_epoch=0, base_offset=self.offset
            )
        )
        self.offset += 1

    def stored(self) -> SealedSegments:
        segments = SealedSegments(self.offset)
        for base_offset, batches, aborted in self.segments:
            segments.write(batches, base_offset, aborted)
        return segments

    def model(self) -> dict[bytes, Record]:
        """The last record of each key."""
        last: dict[bytes, Record] = {}
        for record in sorted(self.stable):
            assert record.key is not None
            last[record.key] = record
        return last


def written(steps) -> Writer:
    writer = Writer()
    writer.tell(steps)
    writer.roll()
    return writer


def all_batches(writer: Writer) -> list[bytes]:
    return [batch for _, batches, _ in writer.segments for batch in batches]


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
