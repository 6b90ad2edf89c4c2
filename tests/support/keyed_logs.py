"""Logs of keyed records, transactions and their ends, from drawn steps, and their model."""

from __future__ import annotations

from hypothesis import strategies as st

from protocol.compression import Codec
from protocol.end_transaction_marker import EndTransactionMarker, build_marker_batch
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from protocol.stored.transaction_index import AbortedTransaction
from tests.support.cleaning import NOW_MS, SealedSegments

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

    def stored(self, **place) -> SealedSegments:
        segments = SealedSegments(self.offset, **place)
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
