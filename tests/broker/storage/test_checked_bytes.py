"""CheckedBytes: the stretches of a file that were looked at since the start."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.storage.checked_bytes import STRETCHES_MAX, CheckedBytes, Stretch

BATCH_BYTES = 10
SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=30)


@given(spans=SPANS)
def test_given_any_spans_when_added_then_a_position_is_known_if_one_of_them_has_it(spans):
    """Batch n, of ten bytes, holds the offset n."""
    checked = CheckedBytes(600)
    known = set()
    for start, count in spans:
        checked.add(start * BATCH_BYTES, (start + count) * BATCH_BYTES, start + count)
        known |= set(range(start, start + count))

    for number in range(60):
        stretch = checked.known_from(number * BATCH_BYTES)
        is_known = stretch is not None and stretch.end > number * BATCH_BYTES
        assert is_known == (number in known)
        if stretch is not None:
            assert stretch.next_offset * BATCH_BYTES == stretch.end
        ends_there = number not in known and number - 1 in known
        assert checked.end_at(number) == (number * BATCH_BYTES if ends_there else None)
    assert checked.is_complete == (known >= set(range(60)))


def test_given_many_stretches_when_added_then_their_number_is_bounded():
    checked = CheckedBytes(10_000)

    for number in range(200):
        checked.add(number * 20, number * 20 + 10, number + 1)

    assert checked.known_from(0) is None
    assert checked.known_from(199 * 20) == Stretch(199 * 20, 199 * 20 + 10, 200)
    held = [number for number in range(200) if checked.known_from(number * 20) is not None]
    assert len(held) == STRETCHES_MAX


def test_given_nothing_on_the_disk_when_asked_then_all_was_checked():
    assert CheckedBytes(0).is_complete
    assert not CheckedBytes(1).is_complete
