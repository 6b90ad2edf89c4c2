"""Records moved in time many at once, against `protocol`, which moves them one by one."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import HEADER_BYTES, parse_header
from protocol.record_slices import moved_record, slice_records
from tidelog.segments.compaction.record_bytes import moved, taken

DELTAS = st.integers(-(2**63), 2**63 - 1)
BODY = st.one_of(st.none(), st.binary(max_size=200))
RECORDS = st.lists(st.tuples(st.integers(0, 2**42), BODY, BODY, DELTAS), min_size=1, max_size=30)


def stored(rows):
    """The records of a batch: their bytes, and where each starts and ends."""
    batch = build_batch([(at, time, key, value) for at, (time, key, value, _) in enumerate(rows)])
    header = parse_header(batch)
    found = list(slice_records(batch, HEADER_BYTES, len(batch), header, 0))
    starts, ends = (np.array([each[part] for each in found]) for part in (0, 1))
    return batch, starts, ends


@settings(max_examples=50)
@given(rows=RECORDS)
def test_given_any_records_when_moved_then_each_is_what_protocol_makes_of_it(rows):
    batch, starts, ends = stored(rows)
    deltas = np.array([row[3] for row in rows], dtype=np.int64)

    data, out_ends = moved(np.frombuffer(batch, dtype=np.uint8), starts, ends, deltas)

    expected = [
        moved_record(batch, start, end, delta)
        for start, end, delta in zip(starts, ends, deltas.tolist(), strict=True)
    ]
    assert data.tobytes() == b"".join(expected)
    assert out_ends.tolist() == np.cumsum([len(each) for each in expected]).tolist()


@settings(max_examples=50)
@given(rows=RECORDS, data=st.data())
def test_given_any_choice_of_records_when_taken_then_their_bytes_follow_each_other(rows, data):
    batch, starts, ends = stored(rows)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))

    found, out_ends = taken(np.frombuffer(batch, dtype=np.uint8), starts[chosen], ends[chosen])

    expected = [batch[at:end] for at, end in zip(starts[chosen], ends[chosen], strict=True)]
    assert found.tobytes() == b"".join(expected)
    assert out_ends.tolist() == np.cumsum([len(each) for each in expected], dtype=int).tolist()
