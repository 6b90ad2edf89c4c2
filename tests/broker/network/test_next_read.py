"""NextRead: large frames one after another are received whole, others as before."""

from __future__ import annotations

import pytest

from broker.network.next_read import AFTER_LARGE_FRAME_BYTES, DOUBTED_FRAMES
from broker.network.receive_buffer import RECEIVE_BYTES, WHOLE_FRAME_BYTES_MAX
from tests.support.network import ConnectionUnderTest, framed

LARGE = b"x" * 1_000_000
FRAME_BYTES = 4 + len(LARGE)


@pytest.fixture
def under_test() -> ConnectionUnderTest:
    """A connection that has received one large frame at once."""
    connection = ConnectionUnderTest(lambda body: b"ok")
    connection.receive(framed(LARGE))
    return connection


def offered_bytes(under_test: ConnectionUnderTest) -> int:
    under_test.loop.turn()
    return len(under_test.connection.get_buffer(-1))


def test_given_a_new_connection_when_it_reads_then_an_ordinary_read() -> None:
    assert offered_bytes(ConnectionUnderTest(lambda body: b"ok")) == RECEIVE_BYTES


def test_given_large_frames_when_they_come_at_once_then_each_is_one_read(under_test) -> None:
    for _ in range(5):
        assert offered_bytes(under_test) == FRAME_BYTES
        under_test.receive(framed(LARGE))
        assert under_test.admission.buffers.bytes_out == 0

    assert under_test.handler.frames == [LARGE] * 6
    assert under_test.written == b"ok" * 6


def test_given_small_frames_after_a_large_one_when_read_then_all_are_handled(under_test) -> None:
    small = [b"small %d" % n for n in range(60_000)]
    sent = framed(*small)
    assert RECEIVE_BYTES < len(sent) < FRAME_BYTES

    under_test.receive(sent)
    while not under_test.transport.reading:
        under_test.loop.turn()

    assert under_test.handler.frames == [LARGE, *small]
    assert offered_bytes(under_test) == RECEIVE_BYTES


def test_given_a_frame_that_comes_cut_when_a_whole_one_was_expected_then_doubt(under_test) -> None:
    offered = []
    under_test.receive(framed(LARGE), 700_000)
    for _ in range(DOUBTED_FRAMES):
        offered.append(offered_bytes(under_test))
        under_test.receive(framed(LARGE))

    assert offered == [AFTER_LARGE_FRAME_BYTES] * DOUBTED_FRAMES
    assert offered_bytes(under_test) == FRAME_BYTES
    assert under_test.handler.frames == [LARGE] * (DOUBTED_FRAMES + 2)


def test_given_a_frame_larger_than_the_shared_buffer_when_another_comes_then_its_own_buffer() -> (
    None
):
    under_test = ConnectionUnderTest(lambda body: b"ok")
    body = bytes(WHOLE_FRAME_BYTES_MAX - 3)

    under_test.receive(framed(body))
    assert offered_bytes(under_test) == AFTER_LARGE_FRAME_BYTES
    under_test.receive(framed(body))

    assert under_test.handler.frames == [body] * 2


def test_given_more_than_an_ordinary_read_is_held_back_when_it_goes_on_then_nothing_is_lost(
    under_test,
) -> None:
    small = [b"%07d" % n * 40 for n in range(8_000)]

    def slow(body: bytes) -> bytes:
        under_test.time_s += 0.001
        return b"ok"

    under_test.handler.script = slow
    left = framed(*small)
    most_held_bytes = 0
    while left:
        under_test.receive(left)
        left = under_test.undelivered
        most_held_bytes = max(most_held_bytes, under_test.admission.buffers.held_bytes)
        while not under_test.transport.reading:
            under_test.loop.turn()

    assert under_test.handler.frames == [LARGE, *small]
    assert most_held_bytes > RECEIVE_BYTES
    assert under_test.admission.buffers.held_bytes == 0
