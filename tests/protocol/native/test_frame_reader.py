"""FrameReader: pieces of any size to whole frames."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import FrameError, FrameTooLargeError
from protocol.native.frame_reader import FrameReader

FRAMES = st.lists(st.binary(min_size=2, max_size=40), max_size=8)
FRAME_BYTES_MAX = 40


def on_wire(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def feed_in_pieces(reader: FrameReader, data: bytes, piece_bytes: int) -> list[bytes]:
    received = []
    for start in range(0, len(data), piece_bytes):
        reader.feed(data[start : start + piece_bytes])
        while (frame := reader.next_frame()) is not None:
            received.append(bytes(frame))
    return received


@given(frames=FRAMES, piece_bytes=st.integers(1, 50))
def test_given_any_pieces_when_fed_then_the_same_frames_come_out(
    frames: list[bytes], piece_bytes: int
) -> None:
    reader = FrameReader(FRAME_BYTES_MAX)

    received = feed_in_pieces(reader, on_wire(frames), piece_bytes)

    assert received == frames
    assert reader.buffered_bytes == 0


def test_given_frames_taken_when_more_is_fed_then_they_stay_as_they_were() -> None:
    reader = FrameReader(FRAME_BYTES_MAX)
    reader.feed(on_wire([b"first", b"second"]))
    taken = [reader.next_frame(), reader.next_frame()]

    reader.feed(on_wire([b"third"]))
    taken.append(reader.next_frame())

    assert [bytes(frame or b"") for frame in taken] == [b"first", b"second", b"third"]


def test_given_a_frame_over_the_limit_when_its_length_is_there_then_noticed_before_its_bytes() -> (
    None
):
    reader = FrameReader(FRAME_BYTES_MAX)

    reader.feed(struct.pack(">i", 41))

    with pytest.raises(FrameTooLargeError) as caught:
        reader.next_frame()
    assert (caught.value.frame_bytes, caught.value.frame_bytes_max) == (41, 40)


@pytest.mark.parametrize("length", [1, 0, -1, -(2**31)])
def test_given_a_length_that_makes_no_sense_when_read_then_frame_error(length: int) -> None:
    reader = FrameReader(FRAME_BYTES_MAX)

    reader.feed(struct.pack(">i", length))

    with pytest.raises(FrameError, match="under 2"):
        reader.next_frame()


@given(
    too_large=st.integers(FRAME_BYTES_MAX + 1, 200),
    frames=FRAMES,
    before=st.integers(0, 60),
    piece_bytes=st.integers(1, 50),
)
def test_given_a_frame_too_large_when_discarded_then_the_stream_goes_on_behind_it(
    too_large: int, frames: list[bytes], before: int, piece_bytes: int
) -> None:
    reader = FrameReader(FRAME_BYTES_MAX)
    data = on_wire([b"x" * too_large, *frames])
    reader.feed(data[: 4 + before])
    with pytest.raises(FrameTooLargeError):
        reader.next_frame()

    reader.discard_frame()
    received = feed_in_pieces(reader, data[4 + before :], piece_bytes)
    while (frame := reader.next_frame()) is not None:
        received.append(bytes(frame))

    assert received == frames


def test_given_a_whole_frame_alone_when_taken_then_its_memory_is_handed_over_writable() -> None:
    reader = FrameReader(FRAME_BYTES_MAX)
    reader.feed(on_wire([b"frame"]))

    frame = reader.next_frame()

    assert frame is not None
    frame[0:1] = b"F"
    assert bytes(frame) == b"Frame"


@given(data=st.binary(max_size=100), piece_bytes=st.integers(1, 50))
def test_given_any_bytes_when_fed_then_frames_or_our_error(data: bytes, piece_bytes: int) -> None:
    reader = FrameReader(FRAME_BYTES_MAX)

    try:
        received = feed_in_pieces(reader, data, piece_bytes)
    except FrameError:
        return

    assert on_wire(received) == data[: len(data) - reader.buffered_bytes]
