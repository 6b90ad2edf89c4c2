"""Inflate: what many batches hold, in a buffer of bounded size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocol.compression import Codec, decompress
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import HEADER_BYTES
from tidelog.segments.batch_table import walk
from tidelog.segments.inflate import InflateRoom, inflate

DATA = b"".join(
    build_batch([(n, 5, b"k", bytes(1_000))], base_offset=n, codec=Codec.ZSTD) for n in range(9)
)


def test_given_compressed_batches_when_inflated_then_it_ends_with_the_one_that_fills_the_buffer():
    table = walk(DATA).table

    found = inflate(DATA, table, buffer_bytes=2_500)

    assert (len(found.starts), found.fault) == (3, None)
    assert found.starts.tolist()[1:] == found.ends.tolist()[:-1]
    assert len(found.buffer) == found.ends[-1] < 3_100


def test_given_a_batch_that_grows_beyond_a_size_when_inflated_then_it_ends_before_it():
    data = DATA + build_batch([(9, 5, b"k", bytes(2_000))], base_offset=9, codec=Codec.ZSTD)

    found = inflate(data, walk(data).table, size_bytes_max=1_500)

    assert len(found.starts) == 9
    assert found.fault is not None


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(Codec), st.integers(0, 5_000)), min_size=1, max_size=8),
        min_size=1,
        max_size=3,
    )
)
def test_given_room_that_was_used_before_when_inflated_then_it_holds_these_batches_alone(made):
    room = InflateRoom()
    for batches in made:
        stored = [
            build_batch(
                [(n, 5, b"k", bytes(range(256)) * (size // 256))], base_offset=n, codec=codec
            )
            for n, (codec, size) in enumerate(batches)
        ]
        data = b"".join(stored)

        found = inflate(data, walk(data).table, room=room)

        assert [
            bytes(found.buffer[start:end])
            for start, end in zip(found.starts, found.ends, strict=True)
        ] == [
            decompress(codec, each[HEADER_BYTES:])
            for each, (codec, _) in zip(stored, batches, strict=True)
        ]
