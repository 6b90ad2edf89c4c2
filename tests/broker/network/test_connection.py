"""Connection: frames in pieces, answers in order, pauses instead of losses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.network.answers import PendingResponse
from broker.network.limits import Admission, ConnectionLimits
from protocol.errors import FrameError
from tests.support.network import ConnectionUnderTest, framed

FRAME = st.binary(min_size=2, max_size=60)


def echo(body: bytes) -> bytes:
    return b"<" + body + b">"


@given(bodies=st.lists(FRAME, max_size=20), piece_bytes=st.integers(1, 80))
def test_given_frames_in_any_pieces_when_received_then_each_is_handled_and_answered_in_order(
    bodies: list[bytes], piece_bytes: int
) -> None:
    under_test = ConnectionUnderTest(echo)

    under_test.receive(framed(*bodies), piece_bytes)

    assert under_test.handler.frames == bodies
    assert under_test.written == b"".join(map(echo, bodies))


@given(
    sizes=st.lists(st.sampled_from([2, 100, 16_000, 16_385, 20_000, 70_000, 300_000]), max_size=6),
    piece_bytes=st.sampled_from([1000, 4096, 65_536, 1 << 30]),
)
def test_given_large_and_small_frames_when_received_then_all_come_out_whole(
    sizes: list[int], piece_bytes: int
) -> None:
    bodies = [bytes([65 + n]) * size for n, size in enumerate(sizes)]
    under_test = ConnectionUnderTest(lambda body: b"ok")

    under_test.receive(framed(*bodies), piece_bytes)

    assert under_test.handler.frames == bodies
    assert under_test.written == b"ok" * len(bodies)
    assert under_test.admission.buffers.bytes_out == 0


def test_given_many_small_frames_in_one_read_when_answered_then_one_write_carries_all() -> None:
    under_test = ConnectionUnderTest(echo)

    under_test.receive(framed(*[b"abc"] * 50))

    assert under_test.transport.writes == 1


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_given_pending_and_ready_answers_when_completed_in_any_order_then_sent_in_request_order(
    is_pending: list[bool], random
) -> None:
    pendings: list[tuple[int, PendingResponse]] = []

    def script(body: bytes):
        if not is_pending[body[0]]:
            return b"%02d" % body[0]
        pendings.append((body[0], PendingResponse()))
        return pendings[-1][1]

    under_test = ConnectionUnderTest(script)
    under_test.receive(framed(*[bytes([n, 0]) for n in range(len(is_pending))]))
    random.shuffle(pendings)
    for number, pending in pendings:
        pending.complete([b"%d" % (number // 10), b"%d" % (number % 10)])
        under_test.loop.turn()

    assert under_test.written == b"".join(b"%02d" % n for n in range(len(is_pending)))


def test_given_a_request_that_must_not_be_overtaken_when_pending_then_the_next_waits() -> None:
    slow = PendingResponse(pauses_reading=True)
    under_test = ConnectionUnderTest(lambda body: slow if body == b"slow" else b"fast")

    under_test.receive(framed(b"slow", b"fast"))
    handled_before = list(under_test.handler.frames)
    slow.complete(b"done ")
    under_test.loop.turn()

    assert handled_before == [b"slow"]
    assert under_test.handler.frames == [b"slow", b"fast"]
    assert under_test.written == b"done fast"
    assert under_test.transport.reading


def test_given_too_many_waiting_answers_when_more_come_then_reading_stops_until_some_leave() -> (
    None
):
    pendings = [PendingResponse() for _ in range(5)]
    queue = iter(pendings)
    under_test = ConnectionUnderTest(
        lambda body: next(queue), limits=ConnectionLimits(requests_in_flight_max=3)
    )

    under_test.receive(framed(*[b"xx"] * 5))
    handled_at_the_limit, reading_at_the_limit = (
        len(under_test.handler.frames),
        under_test.transport.reading,
    )
    for pending in pendings[:3]:
        pending.complete(b".")
    under_test.loop.turn()

    assert (handled_at_the_limit, reading_at_the_limit) == (3, False)
    assert len(under_test.handler.frames) == 5
    assert under_test.transport.reading
    assert under_test.written == b"..."


def test_given_a_client_that_does_not_read_when_the_transport_is_full_then_requests_wait() -> None:
    under_test = ConnectionUnderTest(echo)

    under_test.connection.pause_writing()
    reading_while_full = under_test.transport.reading
    under_test.connection.resume_writing()
    under_test.receive(framed(b"ab"))

    assert not reading_while_full
    assert under_test.written == b"<ab>"


def test_given_no_memory_for_a_large_frame_when_some_comes_back_then_it_is_received() -> None:
    admission = Admission(ConnectionLimits(in_flight_bytes_max=100_000))
    first = ConnectionUnderTest(lambda body: b"1", admission=admission)
    second = ConnectionUnderTest(lambda body: b"2", admission=admission)
    large = framed(b"x" * 60_000)

    first.receive(large[:30_000])
    second.receive(large[:30_000])
    second_reading_while_full = second.transport.reading
    first.receive(large[30_000:])
    second.loop.turn()
    second.receive(large[30_000:])

    assert not second_reading_while_full
    assert (first.written, second.written) == (b"1", b"2")
    assert admission.buffers.bytes_out == 0


def test_given_a_frame_size_out_of_bounds_when_read_then_closed_with_earlier_answers_sent() -> None:
    for size in (b"\x00\x00\x00\x01", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"):
        under_test = ConnectionUnderTest(echo)

        under_test.receive(framed(b"ok") + size + b"zz")

        assert under_test.transport.closed
        assert under_test.connection.close_reason == "bad_frame"
        assert under_test.written == b"<ok>"


def test_given_a_handler_that_refuses_a_frame_when_handled_then_only_this_connection_closes() -> (
    None
):
    def script(body: bytes):
        raise FrameError("no such type")

    under_test = ConnectionUnderTest(script)

    under_test.receive(framed(b"zz"))
    under_test.connection.connection_lost(None)

    assert under_test.closed.reasons == ["bad_frame"]
    assert under_test.lost == [under_test.connection]
    assert under_test.admission.connections == 0


def test_given_a_bug_in_a_handler_when_it_raises_then_the_connection_closes_and_it_is_counted() -> (
    None
):
    def script(body: bytes):
        raise ZeroDivisionError

    under_test = ConnectionUnderTest(script)

    under_test.receive(framed(b"zz"))
    under_test.connection.connection_lost(None)

    assert under_test.closed.reasons == ["internal_error"]


def test_given_a_waiting_poll_when_the_connection_is_lost_then_its_maker_is_told() -> None:
    told: list[str] = []
    pending = PendingResponse(lambda: told.append("abandoned"))
    under_test = ConnectionUnderTest(lambda body: pending)

    under_test.receive(framed(b"zz"))
    under_test.connection.connection_lost(None)
    pending.complete(b"too late")
    under_test.loop.turn()

    assert told == ["abandoned"]
    assert under_test.written == b""


def test_given_a_large_answer_when_queued_behind_others_then_its_parts_leave_uncopied() -> None:
    part = bytes(100_000)
    under_test = ConnectionUnderTest(lambda body: [b"head", part])

    under_test.receive(framed(b"ab", b"cd"))

    assert under_test.written == (b"head" + part) * 2


def test_given_a_quota_when_it_is_used_up_then_reading_pauses_and_nothing_is_lost() -> None:
    under_test = ConnectionUnderTest(echo, limits=ConnectionLimits(requests_per_second_max=10))

    under_test.receive(framed(*[b"ab"] * 30))
    paused = not under_test.transport.reading
    delay, resume = under_test.loop.later[0]
    resume()

    assert paused
    assert 1.5 < delay < 2.5
    assert under_test.transport.reading
    assert under_test.written == b"<ab>" * 30


def test_given_limits_on_connections_when_passed_then_refused_and_admitted_again_later() -> None:
    admission = Admission(ConnectionLimits(connections_max=2))
    first, second, third = (ConnectionUnderTest(echo, admission=admission) for _ in range(3))

    third.connection.connection_lost(None)
    refused = third.closed.reasons
    first.connection.connection_lost(None)
    fourth = ConnectionUnderTest(echo, admission=admission)
    fourth.receive(framed(b"hi"))

    assert refused == ["too_many_connections"]
    assert not second.transport.closed
    assert fourth.written == b"<hi>"


def test_given_a_withheld_frame_when_time_passes_then_it_is_overdue_and_an_idle_one_later() -> None:
    under_test = ConnectionUnderTest(echo, limits=ConnectionLimits(idle_timeout_s=600))
    idle = ConnectionUnderTest(echo, limits=ConnectionLimits(idle_timeout_s=600))

    under_test.receive(b"\x00\x00")

    assert under_test.connection.overdue(29.0) is None
    assert under_test.connection.overdue(31.0) == "frame_timeout"
    assert idle.connection.overdue(599.0) is None
    assert idle.connection.overdue(601.0) == "idle"


def test_given_a_byte_at_a_time_when_the_frame_is_withheld_then_each_byte_buys_no_new_time() -> (
    None
):
    under_test = ConnectionUnderTest(echo)

    under_test.receive(b"\x00\x00")
    under_test.admission.now_s = 25.0
    under_test.receive(b"\x00")

    assert under_test.connection.overdue(31.0) == "frame_timeout"
