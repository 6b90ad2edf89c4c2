"""Index audit: entries are those that `protocol` decodes, whatever is in the file."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import StoredFormatError
from protocol.record_batch_builder import build_batch
from protocol.stored.index_entries import (
    TimeIndexEntry,
    decode_offset_index,
    decode_time_index,
    encode_time_index,
)
from tests.support.audits import audited, batches
from tidelog.segments.audit.fault import FaultKind, Faults
from tidelog.segments.audit.index_audit import OffsetIndexAudit, TimeIndexAudit

BASE = 1000
NUMBERS = st.one_of(st.integers(-2, 6), st.integers(-(2**31), 2**31 - 1))


def index_files(layout):
    """Return files of entries that may grow, stand, fall, be negative, or end in zeros or a cut."""
    entry = struct.Struct(layout)
    entries = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=8)
    ordered = entries.map(sorted)
    tails = st.sampled_from([b"", bytes(entry.size), b"\0", b"\1"])
    return st.builds(
        lambda rows, tail: b"".join(entry.pack(*row) for row in rows) + tail,
        st.one_of(entries, ordered),
        tails,
    )


@pytest.mark.parametrize(
    ("audit", "decode", "columns", "layout"),
    [
        (OffsetIndexAudit, decode_offset_index, ("_offsets", "_positions"), ">ii"),
        (TimeIndexAudit, decode_time_index, ("_timestamps", "_offsets"), ">qi"),
    ],
)
@given(data=st.data())
def test_given_any_bytes_when_read_then_the_entries_are_those_of_the_protocol(
    audit, decode, columns, layout, data
):
    stored = data.draw(index_files(layout))
    faults = Faults("index")
    entry_bytes = struct.calcsize(layout)

    found = audit(stored, BASE, faults)

    texts = [fault.text for fault in faults.all()]
    try:
        expected = decode(stored, BASE)
    except StoredFormatError as error:
        expected, said = [], [str(error)]
    else:
        is_all = not stored[len(expected) * entry_bytes :].strip(b"\0")
        said = [] if is_all else [f"entry {len(expected)} is not above the one before it"]
    assert texts == said
    first, second = (getattr(found, name).tolist() for name in columns)
    assert list(zip(first, second, strict=True)) == [tuple(each) for each in expected]


@pytest.mark.parametrize(("time", "is_sound"), [(300, True), (301, False), (299, True)])
def test_given_a_time_of_a_record_within_a_batch_when_audited_then_it_is_the_batchs(
    tmp_path, time, is_sound
):
    log = batches(tmp_path / "t-0")
    rows = [(n, at, b"k", b"v") for n, at in enumerate([100, 300, 200])]
    log.write_bytes(build_batch(rows) + build_batch([(3, 50, b"k", b"v")], base_offset=3))
    index = encode_time_index([TimeIndexEntry(time, 1)], 0)
    log.with_suffix(".timeindex").write_bytes(index)

    found = audited(tmp_path)

    assert [each.kind for each in found] == ([] if is_sound else [FaultKind.TIME_INDEX])


@pytest.mark.parametrize(
    ("suffix", "entry"), [(".timeindex", (0, -1)), (".timeindex", (-1, 0)), (".index", (-1, 0))]
)
def test_given_an_index_that_begins_below_zero_when_audited_then_it_is_told(
    tmp_path, suffix, entry
):
    log = batches(tmp_path / "t-0", 0)
    layout = ">qi" if suffix == ".timeindex" else ">ii"
    log.with_suffix(suffix).write_bytes(struct.pack(layout, *entry))

    (fault,) = audited(tmp_path)

    assert fault.text.endswith("index entry 0 is negative")
