"""ProduceRun: what belongs together of the PRODUCEs in a read, whatever stands behind it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import FrameError
from protocol.native import requests
from protocol.native.produce_run import RUN_BYTES_MAX, ProduceRun
from tests.support.damage import any_bytes, error_of


def produce(data: bytes, *, topic: str = "logs", partition: int = 3, acks: int = -1) -> bytes:
    return b"".join(requests.encode_produce(topic, partition, acks, 500, 2, data))


def run_of(frames: bytes) -> ProduceRun:
    (size,) = struct.unpack_from(">i", frames)
    return ProduceRun(memoryview(bytearray(frames)), 4, 4 + size, len(frames))


def sets_of(frames: bytes, frame_bytes_max: int = RUN_BYTES_MAX) -> list[bytes]:
    return [bytes(each) for each in run_of(frames).sets(frame_bytes_max)]


@given(
    sets=st.lists(st.binary(max_size=20), min_size=1, max_size=6),
    other=st.sampled_from(
        [
            b"",
            produce(b"x", topic="lags"),
            produce(b"x", topic="log"),
            produce(b"x", partition=4),
            produce(b"x", acks=1),
            requests.encode_topics(["logs"]),
            bytes(60),
            b"\xff" * 60,
        ]
    ),
    cut=st.integers(0, 5),
)
def test_given_frames_that_differ_in_their_sets_when_read_then_all_are_one_run(sets, other, cut):
    frames = b"".join(map(produce, sets))
    tail = produce(b"tail")
    tail = tail[: len(tail) - 1 - cut]

    run = run_of(frames + other + (tail if not other else b""))

    assert (run.topic, run.partition, run.acks) == (b"logs", 3, -1)
    assert (run.timeout_ms, run.message_format) == (500, 2)
    assert [bytes(each) for each in run.sets()] == sets
    assert len(frames) == sum(run.overhead + len(each) for each in sets)


def test_given_frames_beyond_the_bounds_when_read_then_the_run_ends_before_them() -> None:
    many = produce(bytes(1000)) * 40

    assert len(sets_of(many)) * len(produce(bytes(1000))) < RUN_BYTES_MAX + 2000
    assert len(sets_of(produce(bytes(20)) + produce(bytes(100)), frame_bytes_max=100)) == 1
    assert len(sets_of(produce(bytes(100)) + produce(bytes(20)), frame_bytes_max=100)) == 2


@pytest.mark.parametrize("set_bytes", [-2_000_000_000, -30, -1, 0, 2, 2**31 - 1])
def test_given_a_set_size_that_does_not_add_up_when_read_then_it_is_in_no_run(set_bytes) -> None:
    good, bad = produce(b"a"), bytearray(produce(b"b"))
    struct.pack_into(">i", bad, len(bad) - 5, set_bytes)

    assert sets_of(bytes(bad)) == []
    assert sets_of(good + bytes(bad) + good) == [b"a"]


@pytest.mark.parametrize("size", [-2_000_000_000, -40, -1, 0, 2, 2**31 - 1])
def test_given_a_frame_size_that_does_not_add_up_when_read_then_the_run_ends_there(size) -> None:
    good, bad = produce(b"a"), bytearray(produce(b"b"))
    struct.pack_into(">i", bad, 0, size)
    struct.pack_into(">i", bad, len(bad) - 5, size + 4 - (len(bad) - 1))

    assert sets_of(good + bytes(bad) + good) == [b"a"]


@given(any_bytes(st.just(produce(b"abc")[4:])))
def test_given_any_bytes_when_read_as_a_run_then_a_frame_error_or_sets_within(data: bytes) -> None:
    frames = memoryview(bytearray(data))

    error = error_of(lambda _: list(ProduceRun(frames, 0, len(frames), len(frames)).sets()), data)

    assert error is None or isinstance(error, FrameError)
