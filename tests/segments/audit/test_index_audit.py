"""Index audit: entries are those that `protocol` decodes, whatever is in the file."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import StoredFormatError
from protocol.stored.index_entries import decode_offset_index, decode_time_index
from tidelog.segments.audit.fault import Faults
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
