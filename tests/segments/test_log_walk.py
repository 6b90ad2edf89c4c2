"""LogWalk: every byte is in a piece, and what is sound is found, whatever was done to a log."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.legacy_message_set_builder import build_set
from protocol.record import Record
from protocol.record_batch import check_batch
from protocol.record_batch_builder import build_batch
from tests.support.damage import damaged
from tidelog.segments.location import locate
from tidelog.segments.log_walk import Batches, Damage, OldEntry, walk_log
from tidelog.segments.log_window import LogWindow

BATCHES = [
    build_batch(
        [(offset + n, 0, b"k", bytes(7 * offset)) for n in range(3)], base_offset=offset
    )
    for offset in (0, 3, 6, 9)
]  # fmt: skip
LOG = b"".join(BATCHES)


def walked(directory, data, window_bytes):
    """Return (position, end, base offsets of batches; "old", or None for damage) of each piece."""
    path = directory / f"{0:020}.log"
    path.write_bytes(data)
    found = []
    with LogWindow(locate(path), len(data), window_bytes=window_bytes) as window:
        for piece in walk_log(window, 0):
            if isinstance(piece, Batches):
                for row in piece.table:
                    begin, size = int(row["position"]), int(row["size_bytes"])
                    check_batch(piece.data[begin : begin + size])
                    start = piece.position + begin
                    found.append((start, start + size, int(row["base_offset"])))
            elif isinstance(piece, OldEntry):
                found.append((piece.position, piece.position + piece.entry.size_bytes, "old"))
            else:
                assert isinstance(piece, Damage)
                found.append((piece.position, piece.position + piece.size_bytes, None))
    return found


@settings(max_examples=150, deadline=None)
@given(data=damaged(st.just(LOG)), window_bytes=st.sampled_from([64, 200, 1 << 20]))
def test_given_any_wounds_when_walked_then_no_byte_is_left_out_and_no_whole_batch_is_missed(
    data, window_bytes, tmp_path_factory
):
    found = walked(tmp_path_factory.mktemp("log"), data, window_bytes)

    ends = [0, *(end for _, end, _ in found)]
    assert [start for start, _, _ in found] == ends[:-1]
    assert ends[-1] == len(data)
    for batch in BATCHES:
        if batch in data:
            # A byte that was taken out between two may be the last of one and the first of the
            # next; then the first has it.
            begin, end = data.index(batch), data.index(batch) + len(batch)
            is_shared = any(s < begin < e and kind is not None for s, e, kind in found)
            assert is_shared or (begin, end, check_batch(batch).base_offset) in found


def test_given_old_entries_among_batches_when_walked_then_each_is_a_piece(tmp_path):
    old = [build_set([Record(n, 0, b"k", b"v")], magic=1) for n in range(3)]
    batch = build_batch([(3, 0, b"k", b"v")], base_offset=3)

    found = walked(tmp_path, b"".join(old) + batch, 1 << 20)

    assert [kind for _, _, kind in found] == ["old", "old", "old", 3]


def test_given_a_batch_in_the_value_of_a_damaged_one_when_walked_then_it_is_none_of_the_logs(
    tmp_path,
):
    inner = build_batch([(1, 0, b"k", b"v")], base_offset=1)
    outer = bytearray(build_batch([(0, 0, b"k", inner), (1, 0, b"k", b"x")], base_offset=0))
    outer[-1] ^= 1
    after = build_batch([(2, 0, b"k", b"v")], base_offset=2)

    found = walked(tmp_path, bytes(outer) + after, 1 << 20)

    assert [kind for _, _, kind in found] == [None, 2]
