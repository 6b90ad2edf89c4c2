"""Connection: back-pressure, turns and deadlines, so that no client can hurt another one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from broker.network.answers import Answer, PendingResponse
from broker.network.connection import SCARCE_READ_BYTES
from broker.network.limits import Admission, ConnectionLimits
from tests.support.network import ConnectionUnderTest, framed

KINDS = st.sampled_from(["now", "parts", "later", "alone", "done"])
SIZES_BYTES = st.sampled_from([9, 200, 20_000])
EVENTS = st.sampled_from(["receive", "receive", "answer", "not read", "read", "time", "other"])


def echo(body: bytes) -> bytes:
    return b"<" + body + b">"


class HarriedConnection(ConnectionUnderTest):
    """One whose requests (kind, size) are answered in all ways, while all there is gets short."""

    def __init__(self, requests: list[tuple[str, int]], piece_bytes: int) -> None:
        limits = ConnectionLimits(
            requests_in_flight_max=3,
            write_buffer_bytes_max=20,
            in_flight_bytes_max=60_000,
            requests_per_second_max=5,
        )
        super().__init__(self.answer, admission=Admission(limits, lambda: self.time_s))
        self.kinds = [kind for kind, _ in requests]
        self.to_send = framed(*[bytes([n]) * size for n, (_, size) in enumerate(requests)])
        self.piece_bytes = piece_bytes
        self.pendings: list[tuple[int, PendingResponse]] = []
        self.is_read = True
        self.other = ConnectionUnderTest(echo, admission=self.admission)
        self.other_to_send = b""

    def answer(self, body: bytes) -> Answer:
        alone = [pending for _, pending in self.pendings if pending.pauses_reading]
        assert not alone, "a request that none may overtake was overtaken"
        assert len(self.pendings) < 3, "more requests under way than allowed"
        assert self.is_read, "the client does not read its answers"
        number = body[0]
        kind = self.kinds[number]
        if kind == "now":
            return b"<%d>" % number
        if kind == "parts":
            return [b"<", b"%d>" % number]
        pending = PendingResponse(pauses_reading=kind == "alone")
        if kind == "done":
            pending.complete(b"<%d>" % number)
        else:
            self.pendings.append((number, pending))
        return pending

    def happens(self, event: str) -> None:
        if event == "receive":
            piece, rest = self.to_send[: self.piece_bytes], self.to_send[self.piece_bytes :]
            self.receive(piece)
            self.to_send = self.undelivered + rest
        elif event == "answer" and self.pendings:
            number, pending = self.pendings.pop()
            pending.complete(b"<%d>" % number)
        elif event == "not read":
            self.is_read = False
            self.connection.pause_writing()
        elif event == "read":
            self.is_read = True
            self.connection.resume_writing()
        elif event == "time":
            self.time_s += 10.0
            for under_test in (self, self.other):
                later, under_test.loop.later = under_test.loop.later, []
                for _, callback in later:
                    callback()
        elif event == "other":  # by turns most of a large frame, and what is left of it
            self.other_to_send = self.other_to_send or framed(bytes(30_000))
            piece, rest = self.other_to_send[:20_000], self.other_to_send[20_000:]
            self.other.receive(piece)
            self.other_to_send = self.other.undelivered + rest
        self.loop.turn()
        self.other.loop.turn()


@given(
    requests=st.lists(st.tuples(KINDS, SIZES_BYTES), max_size=12),
    events=st.lists(EVENTS, max_size=40),
    piece_bytes=st.sampled_from([5, 150, 9_000, 1 << 20]),
)
def test_given_pauses_of_all_kinds_in_any_order_when_all_are_over_then_each_request_is_answered(
    requests: list[tuple[str, int]], events: list[str], piece_bytes: int
) -> None:
    """Unread answers, a quota, polls, requests that none may overtake, memory that others hold."""
    under_test = HarriedConnection(requests, piece_bytes)

    for event in events:
        under_test.happens(event)
    under_test.piece_bytes = 1 << 20
    for _ in range(2 * len(requests) + 4):
        for event in ("read", "time", "answer", "receive"):
            under_test.happens(event)
        if under_test.other_to_send:
            under_test.happens("other")

    numbers = range(len(requests))
    assert [body[0] for body in under_test.handler.frames] == list(numbers)
    assert under_test.written == b"".join(b"<%d>" % number for number in numbers)
    assert under_test.admission.buffers.bytes_out == 0


def test_given_a_large_frame_that_is_whole_when_a_later_one_is_cut_then_it_has_all_its_time() -> (
    None
):
    under_test = ConnectionUnderTest(echo)

    under_test.receive(framed(b"x" * 60_000), piece_bytes=20_000)
    under_test.admission.now_s = 100.0
    under_test.receive(b"\x00\x00")

    assert under_test.connection.overdue(129.0) is None
    assert under_test.connection.overdue(131.0) == "frame_timeout"


def test_given_a_pause_when_over_and_a_later_frame_is_cut_then_it_has_all_its_time() -> None:
    under_test = ConnectionUnderTest(echo)

    under_test.connection.pause_writing()
    under_test.connection.resume_writing()
    under_test.admission.now_s = 100.0
    under_test.receive(b"\x00\x00")

    assert under_test.connection.overdue(129.0) is None


def test_given_memory_is_short_when_a_large_frame_dawdles_then_its_size_buys_no_time() -> None:
    """A few clients that announce the largest frame and send none of it would stop all others."""
    admission = Admission(ConnectionLimits(in_flight_bytes_max=100_000, frame_timeout_s=30))
    slow = ConnectionUnderTest(echo, admission=admission)
    other = ConnectionUnderTest(echo, admission=admission)

    slow.receive(framed(bytes(4 * 1024 * 1024))[:20_000])
    with_room = slow.connection.overdue(31.0)
    other.receive(framed(bytes(20_000))[:18_000])

    assert with_room is None
    assert slow.connection.overdue(31.0) == "frame_timeout"


def test_given_a_handler_that_closes_when_frames_follow_in_the_same_read_then_none_is_handled() -> (
    None
):
    """acks=0: an error closes the connection; what was sent behind it must not be appended."""
    under_test = ConnectionUnderTest(lambda body: under_test.connection.close("produce_failed"))

    under_test.receive(framed(b"first", b"second"))

    assert under_test.handler.frames == [b"first"]
    assert under_test.transport.closed


def test_given_a_closed_connection_when_a_pause_ends_then_frames_that_waited_are_not_handled() -> (
    None
):
    slow = PendingResponse(pauses_reading=True)
    under_test = ConnectionUnderTest(lambda body: slow)

    under_test.receive(framed(b"slow", b"next"))
    under_test.connection.close("produce_failed")
    slow.complete(None)
    under_test.loop.turn()

    assert under_test.handler.frames == [b"slow"]


def test_given_answers_behind_a_poll_when_they_are_many_bytes_then_reading_stops() -> None:
    """Else a poll on an empty partition, and a thousand fetches behind it, take all memory."""
    poll = PendingResponse()
    limits = ConnectionLimits(write_buffer_bytes_max=1_000_000)
    under_test = ConnectionUnderTest(
        lambda body: poll if body == b"poll" else [bytes(300_000)], limits=limits
    )

    under_test.receive(framed(b"poll", *[b"fetch"] * 10))
    handled_behind_the_poll = len(under_test.handler.frames) - 1
    poll.complete(b"")
    under_test.loop.turn()

    assert handled_behind_the_poll == 4
    assert len(under_test.handler.frames) == 11
    assert len(under_test.written) == 10 * 300_000
    assert under_test.transport.reading


def test_given_large_answers_made_of_bytes_when_the_client_does_not_read_then_requests_wait() -> (
    None
):
    """TOPICS: 8 bytes ask for 15 KB, and 30,000 such requests come in one read."""
    limits = ConnectionLimits(write_buffer_bytes_max=40_000)
    under_test = ConnectionUnderTest(lambda body: bytes(15_000), limits=limits)
    under_test.transport.client_reads = False

    under_test.receive(framed(*[b"ab"] * 100))

    assert len(under_test.handler.frames) == 3
    assert not under_test.transport.reading


def test_given_slow_requests_in_one_read_when_their_turn_is_over_then_others_have_theirs() -> None:
    """What one client pipelines must not hold up all others."""

    def script(body: bytes):
        under_test.time_s += 0.004
        return b"."

    under_test = ConnectionUnderTest(script)
    turns = [0]

    under_test.receive(framed(*[b"ab"] * 40))
    while under_test.loop.soon:
        turns.append(len(under_test.handler.frames))
        under_test.loop.turn()

    assert max(b - a for a, b in pairwise(turns)) == 8
    assert under_test.written == b"." * 40
    assert under_test.transport.reading


def test_given_a_read_that_fills_the_buffer_when_handled_then_others_have_their_turn() -> None:
    """libuv reads on, up to 32 times, as long as the buffer is filled and nobody stops it."""
    under_test = ConnectionUnderTest(echo)
    read_bytes = len(under_test.connection.get_buffer(-1))

    under_test.receive(framed(*[bytes(96)] * (read_bytes // 100 + 1))[:read_bytes])
    reading_in_this_turn = under_test.transport.reading
    under_test.loop.turn()

    assert not reading_in_this_turn
    assert under_test.transport.reading


def test_given_a_quota_that_is_used_up_when_connected_anew_then_there_is_no_new_burst() -> None:
    admission = Admission(ConnectionLimits(requests_per_second_max=10), lambda: 0.0)
    first = ConnectionUnderTest(echo, admission=admission)

    first.receive(framed(*[b"ab"] * 30))
    first.connection.connection_lost(None)
    admission.forget_quotas(1.0)
    second = ConnectionUnderTest(echo, admission=admission)
    second.receive(framed(b"ab"))
    reading_too_early = second.transport.reading
    second.connection.connection_lost(None)
    admission.forget_quotas(4.0)
    later = ConnectionUnderTest(echo, admission=admission)
    later.receive(framed(*[b"ab"] * 10))

    assert not reading_too_early
    assert later.transport.reading


def test_given_a_woken_waiter_that_is_gone_when_memory_comes_back_then_the_next_gets_it() -> None:
    admission = Admission(ConnectionLimits(in_flight_bytes_max=100_000))
    first, second, third = (
        ConnectionUnderTest(lambda body: b"ok", admission=admission) for _ in range(3)
    )
    large = framed(b"x" * 60_000)

    first.receive(large[:30_000])
    second.receive(large[:30_000])
    third.receive(large[:30_000])
    first.receive(large[30_000:])
    second.connection.connection_lost(None)
    second.loop.turn()
    third.loop.turn()
    third.receive(large[30_000:])

    assert third.written == b"ok"


def test_given_a_woken_waiter_with_another_reason_to_wait_when_woken_then_the_next_is_too() -> None:
    admission = Admission(ConnectionLimits(in_flight_bytes_max=100_000))
    first, second, third = (
        ConnectionUnderTest(lambda body: b"ok", admission=admission) for _ in range(3)
    )
    large = framed(b"x" * 60_000)

    first.receive(large[:30_000])
    second.receive(large[:30_000])
    third.receive(large[:30_000])
    second.connection.pause_writing()
    first.receive(large[30_000:])
    for under_test in (second, third):
        under_test.loop.turn()
    third.receive(large[30_000:])
    third.loop.turn()
    second.connection.resume_writing()
    second.receive(large[30_000:])

    assert (second.written, third.written) == (b"ok", b"ok")
    assert admission.buffers.bytes_out == 0


def test_given_answers_made_in_turn_when_the_client_does_not_read_then_no_more_are_made() -> None:
    made: list[int] = []
    pendings = [PendingResponse() for _ in range(5)]
    queue = iter(pendings)
    under_test = ConnectionUnderTest(lambda body: next(queue))
    under_test.receive(framed(*[b"xx"] * 5))

    def make(number: int) -> None:
        made.append(number)
        under_test.connection.pause_writing()  # as a transport does that has enough of it
        pendings[number].complete([bytes([number]) * 5_000])

    for number in reversed(range(5)):
        pendings[number].when_first(lambda number=number: make(number))  # type: ignore[misc]
    under_test.loop.turn()
    made_at_first = list(made)
    under_test.connection.resume_writing()
    under_test.loop.turn()

    assert made_at_first == [0]
    assert made == [0, 1]
    assert under_test.written == bytes(5_000) + b"\1" * 5_000


def test_given_an_answer_made_in_turn_when_the_connection_is_lost_then_it_is_never_made() -> None:
    made: list[str] = []
    pending = PendingResponse()
    under_test = ConnectionUnderTest(lambda body: pending)
    under_test.receive(framed(b"xx"))

    pending.when_first(lambda: made.append("made"))
    under_test.connection.connection_lost(None)
    under_test.loop.turn()

    assert made == []


def test_given_an_answer_that_was_sent_when_its_maker_lives_on_then_it_keeps_no_memory() -> None:
    pending = PendingResponse(lambda: None)
    under_test = ConnectionUnderTest(lambda body: pending)
    under_test.receive(framed(b"xx"))

    pending.complete([bytes(100_000)])
    under_test.loop.turn()

    assert under_test.written == bytes(100_000)
    assert pending.answer is None
    assert pending.on_abandoned is None  # a cycle would wait for the garbage collector


def test_given_paused_connections_when_each_carries_a_read_then_reads_get_small() -> None:
    """10,000 paused connections with a whole read each would be 2.5 GB beside the bound."""
    admission = Admission(ConnectionLimits(in_flight_bytes_max=400_000))
    paused = [
        ConnectionUnderTest(lambda body: PendingResponse(pauses_reading=True), admission=admission)
        for _ in range(20)
    ]

    for each in paused:
        room = len(each.connection.get_buffer(-1))
        each.receive(framed(*[b"x" * 996] * (min(room, 200_000) // 1_000)))
    held_bytes = admission.buffers.carried_bytes
    for each in paused:
        each.connection.connection_lost(None)

    assert 400_000 <= held_bytes < 400_000 + 20 * (SCARCE_READ_BYTES + 200_000 // 20)
    assert admission.buffers.carried_bytes == 0
    assert not admission.buffers.is_full


def test_given_carried_bytes_when_memory_is_asked_for_then_they_count() -> None:
    admission = Admission(ConnectionLimits(in_flight_bytes_max=300_000))
    first = admission.buffers.take(60_000)
    admission.buffers.carry(250_000)

    refused = admission.buffers.take(60_000)
    admission.buffers.carry(-250_000)
    granted = admission.buffers.take(60_000)

    assert (first is None, refused, granted is None) == (False, None, False)


def test_given_little_memory_when_frames_come_in_small_reads_then_each_is_handled_once() -> None:
    admission = Admission(ConnectionLimits(in_flight_bytes_max=100_000))
    connection = ConnectionUnderTest(lambda body: b"<%d>" % len(body), admission=admission)
    admission.buffers.carry(100_000)  # of others
    bodies = [bytes([65 + number]) * (number * 997 % 9_000 + 2) for number in range(20)]

    connection.receive(framed(*bodies))

    assert connection.handler.frames == bodies
    assert connection.transport.written == b"".join(b"<%d>" % len(body) for body in bodies)
    assert admission.buffers.carried_bytes == 100_000
