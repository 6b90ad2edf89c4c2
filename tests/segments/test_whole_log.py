"""A whole log: whatever is in it and however it is cut, what `protocol` finds one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.compression import Codec
from protocol.end_transaction_marker import EndTransactionMarker, build_marker_batch
from protocol.legacy_message_set import (
    check_entry,
    entry_magic,
    iterate_entry_records,
    parse_entry,
)
from protocol.legacy_message_set_builder import build_set
from protocol.record import Record
from protocol.record_batch import check_batch, iterate_records
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import MAGIC, TimestampType, parse_header
from protocol.stored.index_entries import OffsetIndexEntry, encode_offset_index
from tests.support.segment_logs import emptied
from tidelog.segments.columns import COLUMNS, HEADERS
from tidelog.segments.location import locate
from tidelog.segments.log_files import list_partitions
from tidelog.segments.plan import bounds, offset_for_time, plan
from tidelog.segments.reader import ReadOptions, read_split

TIME = 10**12
rows = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, 300]),  # offsets that compaction took
        st.sampled_from([-1, 0, -5, TIME, TIME, TIME + 1]) | st.integers(TIME - 50, TIME + 50),
        st.none() | st.binary(max_size=9),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.just(b"x")), max_size=2),
    ),
    min_size=1,
    max_size=5,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), rows, st.sampled_from(Codec), st.booleans()),
        st.tuples(st.just("emptied"), rows),
        st.tuples(st.sampled_from(["p1", "p2", "p1"]), rows),
        st.tuples(st.sampled_from(["commit1", "commit2", "abort1", "abort2"])),
        st.tuples(st.sampled_from(["v0", "v1"]), rows, st.sampled_from([Codec.NONE, Codec.GZIP])),
        st.tuples(st.just("roll")),
    ),
    min_size=1,
    max_size=14,
)


class Row(NamedTuple):
    """A record as it is to be read."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    is_control: bool


class Log:
    """Makes segments of steps, and what is known of its transactions."""

    def __init__(self) -> None:
        self.offset, self.segments = 0, [(0, bytearray())]
        self.open: dict[int, list[int]] = {}
        self.aborted: set[int] = set()

    def tell(self, made) -> None:
        for kind, *fields in made:
            if kind == "roll":
                if self.segments[-1][1]:
                    self.segments.append((self.offset, bytearray()))
            elif kind.startswith(("commit", "abort")):
                self._end(int(kind[-1]), is_commit=kind.startswith("commit"))
            else:
                self._append(kind, *fields)

    @property
    def stable(self) -> int:
        return min((min(offsets) for offsets in self.open.values()), default=self.offset)

    def _append(self, kind, drawn, codec=Codec.NONE, is_append_time=False) -> None:
        base, records = self.offset, []
        for gap, *fields, headers in drawn:
            self.offset += gap
            records.append(Record(self.offset, *fields, tuple(headers)))
            self.offset += 1
        if kind in ("v0", "v1"):
            data = build_set(records, magic=int(kind[1]), codec=codec)
        else:
            options = {"base_offset": base, "codec": codec, "leader_epoch": len(drawn)}
            if kind[0] == "p":
                producer = int(kind[1])
                options |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": base}
                options["is_transactional"] = True
                self.open.setdefault(producer, []).extend(each.offset for each in records)
            if is_append_time:
                options["timestamp_type"] = TimestampType.LOG_APPEND_TIME
            data = build_batch(records, **options)
        self.segments[-1][1].extend(emptied(data) if kind == "emptied" else data)

    def _end(self, producer: int, *, is_commit: bool) -> None:
        offsets = self.open.pop(producer, [])
        if not is_commit:
            self.aborted.update(offsets)
        marker = EndTransactionMarker(is_commit, 0, TIME)
        self.segments[-1][1].extend(
            build_marker_batch(
                marker, producer_id=producer, producer_epoch=0, base_offset=self.offset
            )
        )
        self.offset += 1

    def write(self, directory: Path) -> Path:
        directory.mkdir()
        for base_offset, data in self.segments:
            (directory / f"{base_offset:020}.log").write_bytes(data)
            entries = [OffsetIndexEntry(last, at) for at, last in _places(bytes(data)) if at]
            index = encode_offset_index(entries, base_offset)
            (directory / f"{base_offset:020}.index").write_bytes(index)
        return directory


def _places(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield position and last offset of each batch and entry."""
    position = 0
    while position < len(data):
        is_old = entry_magic(data, position) != MAGIC
        found = parse_entry(data, position) if is_old else parse_header(data, position)
        yield position, found.offset if is_old else found.last_offset
        position += found.size_bytes


def one_by_one(data: bytes) -> Iterator[Row]:
    """Yield the records of a segment as `protocol` decodes them."""
    position = 0
    while position < len(data):
        if entry_magic(data, position) == MAGIC:
            found = check_batch(data, position)
            kind, is_control = int(found.timestamp_type), found.is_control
            records = iterate_records(data, position)
        else:
            found, is_control = check_entry(data, position), False
            kind = -1 if found.magic == 0 else int(found.timestamp_type)
            records = iterate_entry_records(data, found)
        for each in records:
            yield Row(each[0], each[1], kind, *each[2:4], tuple(each[4]), is_control)
        position += found.size_bytes


def read(directory: Path, ends: tuple[int, int], split_bytes: int, **options) -> list[Row]:
    location = locate(directory)
    (files,) = list_partitions(location)
    made = ReadOptions(columns=(*COLUMNS, HEADERS), **options)
    first, behind = bounds(location, files, isolation=made.isolation)
    start, end = max(first, ends[0]), min(behind, ends[1])
    return [
        Row(
            row["offset"], row["time"], row["timestampType"], row["key"], row["value"],
            tuple((each["key"], each["value"]) for each in row[HEADERS]), False,
        )
        for split in plan(location, files, start, end, split_bytes=split_bytes)
        for rows in read_split(location, split, made)
        for row in rows.append_column("time", _milliseconds(rows)).to_pylist()
    ]  # fmt: skip


def _milliseconds(rows):
    import pyarrow.compute as pc

    return pc.divide(rows["timestamp"].cast("int64"), 1000)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@settings(max_examples=40, deadline=None)
@given(
    made=steps,
    ends=st.tuples(st.integers(0, 30), st.integers(5, 2000)),
    times=st.tuples(st.sampled_from([None, 0, TIME, TIME + 2]), st.sampled_from([None, TIME + 1])),
    sizes=st.tuples(st.integers(1, 2000), st.integers(1, 2000)),
    include_control=st.booleans(),
)
def test_given_any_log_when_any_part_of_it_is_read_then_what_protocol_finds_in_it(
    tmp_path_factory, made, ends, times, sizes, include_control, isolation
):
    log = Log()
    log.tell(made)
    directory = log.write(tmp_path_factory.mktemp("log") / "logs-0")
    everything = [row for _, data in log.segments for row in one_by_one(bytes(data))]

    found = read(
        directory, ends, sizes[0], chunk_bytes=sizes[1], isolation=isolation,
        include_control=include_control, start_timestamp_ms=times[0], end_timestamp_ms=times[1],
    )  # fmt: skip

    is_committed = isolation == "read_committed"
    assert found == [
        row._replace(is_control=False)
        for row in everything
        if ends[0] <= row.offset < ends[1]
        and (include_control or not row.is_control)
        and (times[0] is None or row.timestamp >= times[0])
        and (times[1] is None or row.timestamp < times[1])
        and not (is_committed and (row.offset in log.aborted or row.offset >= log.stable))
    ]
    location = locate(directory)
    (files,) = list_partitions(location)
    if times[0] is not None:
        late = (row.offset for row in everything if row.timestamp >= times[0])
        assert offset_for_time(location, files, times[0]) == next(late, None)
