"""The last record of each key, by both tables, against a dict."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.segments.compaction import latest_records
from tidelog.segments.compaction.latest_records import KeySpans, find_latest
from tidelog.segments.errors import DataLossError

KEYS = st.lists(st.one_of(st.none(), st.sampled_from([b"", b"a", b"b"]), st.binary(max_size=20)))


@pytest.fixture(params=["numba", "numpy"])
def table(request, monkeypatch):
    if request.param == "numba":
        pytest.importorskip("numba")
    monkeypatch.setattr(latest_records, "kernel_name", lambda: request.param)
    return request.param


def spans_of(keys, chunk=7):
    """The keys as chunks of spans; None is a record without one."""
    for first in range(0, len(keys), chunk):
        there = [
            (at, key)
            for at, key in enumerate(keys[first : first + chunk], first)
            if key is not None
        ]
        ends = np.cumsum([len(key) for _, key in there], dtype=np.int64)
        sizes = np.array([len(key) for _, key in there], dtype=np.int64)
        buffer = np.frombuffer(b"".join(key for _, key in there), dtype=np.uint8)
        ordinals = np.array([at for at, _ in there], dtype=np.int64)
        yield KeySpans(buffer, ends - sizes, ends, ordinals)


def latest_by_dict(keys):
    last = {key: at for at, key in enumerate(keys) if key is not None}
    return [key is not None and last[key] == at for at, key in enumerate(keys)]


@pytest.mark.parametrize("name", ["numba", "numpy"])
@given(keys=KEYS, start=st.integers(0, 20))
def test_given_any_keys_when_looked_through_then_the_last_of_each_is_found(name, keys, start):
    before, latest_records.kernel_name = latest_records.kernel_name, lambda: name
    try:
        found = find_latest(lambda: spans_of(keys), len(keys), memory_bytes_max=0)
    finally:
        latest_records.kernel_name = before

    assert found.mask(0, len(keys)).tolist() == latest_by_dict(keys)
    assert found.mask(start, len(keys[start:])).tolist() == latest_by_dict(keys)[start:]
    assert (found.readings, found.keys) == (1, len({key for key in keys if key is not None}))


def test_given_more_keys_than_fit_when_looked_through_then_in_buckets_and_the_same(table):
    keys = [b"key-%d" % (at * 7 % 50_000) for at in range(70_000)]

    found = find_latest(lambda: spans_of(keys, 10_000), len(keys), memory_bytes_max=1 << 20)

    assert found.mask(0, len(keys)).tolist() == latest_by_dict(keys)
    assert found.keys == 50_000
    assert found.readings > 2


def test_given_a_key_larger_than_the_first_arena_when_noted_then_it_grows(table):
    keys = [bytes(200_000), b"x", bytes(200_000), bytes(199_999)]

    found = find_latest(lambda: spans_of(keys), len(keys), memory_bytes_max=1 << 20)

    assert found.mask(0, 4).tolist() == [False, True, True, True]


def test_given_keys_larger_than_the_memory_when_looked_through_then_it_comes_to_an_end(table):
    keys = [bytes(900_000), *(b"%d" % n for n in range(100)), bytes(1_500_000), bytes(900_000)]

    found = find_latest(lambda: spans_of(keys), len(keys), memory_bytes_max=1 << 20)

    assert found.mask(0, len(keys)).tolist() == latest_by_dict(keys)
    assert found.readings < 20


def test_given_more_records_than_there_were_when_looked_through_then_the_log_is_another(table):
    keys = [b"%d" % n for n in range(20)]

    with pytest.raises(DataLossError, match="more records now"):
        find_latest(lambda: spans_of(keys), 3, memory_bytes_max=1 << 20)
