"""Connection: bytes of one client in, frames to its handler, answers out in request order.

Reading costs no allocation: small frames are parsed where the kernel put them, in one buffer that
all connections of a loop share (a read and its parsing are one step); what is left of a cut frame
is carried to the next read. A frame too large for that is received into a pooled buffer of its
own; where it came at once, the next read makes room for one as large, and what is whole is parsed
in place. Answers that one read brought about leave in one write.

Reading pauses, and nothing is dropped, while any of these holds: too many answers are waiting, a
request that must not be overtaken is under way, the client does not read its answers, the memory
for frames is used up, or the client is over its request quota. One client's turn of the loop is
over after a full read or `TURN_S`: then the others have theirs.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Final, cast

import structlog

from broker.network.answers import Answer, FrameHandler
from broker.network.foreign_frame import size_error
from broker.network.frame_deadline import FrameDeadline
from broker.network.idleness import Idleness
from broker.network.large_frame import LargeFrame
from broker.network.limits import Admission, ClosedConnections
from broker.network.lost_reason import lost_reason
from broker.network.next_read import NextRead
from broker.network.quota import RequestQuota
from broker.network.receive_buffer import RECEIVE_BYTES, SharedReceiveBuffer
from broker.network.response_queue import JOINED_BYTES_MAX, ResponseQueue
from protocol.errors import FrameError

log = structlog.get_logger("tidelog.network")

LENGTH: Final = struct.Struct(">i")
CARRIED_BYTES_MAX: Final = 16 * 1024
"""A cut frame longer than this gets a buffer of its own instead of being copied along."""
SCARCE_READ_BYTES: Final = 4 * 1024
"""What a read may bring while the memory for frames is used up."""
TURN_S: Final = 0.004
"""What one client's requests may take of one turn of the loop: the others are never held up longer
than a few milliseconds. A full read of tiny ones takes it all."""
FRAMES_UNTIMED: Final = 8  # frames that are handled between two looks at the clock


class Connection(asyncio.BufferedProtocol):
    """One client's connection. Everything here happens on the event loop's thread."""

    __slots__ = (
        "_admission", "_admitted", "_busy_s", "_carry", "_counters", "_drain_scheduled",
        "_frame_deadline", "_handler", "_large", "_loop", "_make_handler",
        "_next_read", "_on_lost", "_quota", "_receive", "_responses", "_throttled", "_transport",
        "_waits_for_memory", "_write_paused", "address", "close_reason", "idleness",
        "is_reading_paused", "peer",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        admission: Admission,
        receive: SharedReceiveBuffer,
        make_handler: Callable[[Connection], FrameHandler],
        counters: ClosedConnections,
        on_lost: Callable[[Connection], None],
    ) -> None:
        self._loop, self._admission, self._receive = loop, admission, receive
        self._make_handler, self._counters, self._on_lost = make_handler, counters, on_lost
        self._handler: FrameHandler | None = None
        self._transport: asyncio.Transport | None = None
        self._responses = ResponseQueue(admission.limits)
        self._carry = b""  # the start of a cut frame, or frames that wait for a pause to end
        self._large: LargeFrame | None = None  # the one that is being received
        self._next_read = NextRead()
        self._busy_s = 0.0  # with large frames, since the loop's other clients last had a turn
        self._frame_deadline = FrameDeadline(admission.limits.frame_timeout_s)
        self._quota: RequestQuota | None = None
        self._admitted = self._throttled = self._write_paused = self._waits_for_memory = False
        self._drain_scheduled = self.is_reading_paused = False
        self.idleness = Idleness(admission.limits.idle_timeout_s, admission.now_s)
        self.peer = self.address = ""
        self.close_reason: str | None = None

    # --- from the transport ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        self.address, self.peer = str(peer[0]), f"{peer[0]}:{peer[1]}"
        refusal = self._admission.admit(self.address)
        if refusal is not None:
            self.close(refusal)
            return
        self._admitted = True
        self._quota = self._admission.quota(self.address)
        self._transport.set_write_buffer_limits(self._admission.limits.write_buffer_bytes_max)
        self._handler = self._make_handler(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return self._large.room
        carry, is_full = self._carry, self._admission.buffers.is_full
        if carry or is_full:
            view = self._receive.view
            view[: len(carry)] = carry
            return view[len(carry) : len(carry) + SCARCE_READ_BYTES if is_full else None]
        expected_bytes = self._next_read.size_bytes
        return self._receive.whole[:expected_bytes] if expected_bytes else self._receive.view

    def buffer_updated(self, nbytes: int) -> None:
        self.idleness.since_s = self._admission.now_s
        if self._large is not None:
            if self._large.fill(nbytes):
                self._handle_large_frame(self._large)
        else:
            self._handle_frames(nbytes + len(self._taken_carry()) if self._carry else nbytes)
        if self._responses.out:
            self._write_out()

    def eof_received(self) -> bool:
        return False  # close; answers already written still leave

    def connection_lost(self, exc: Exception | None) -> None:
        if self._admitted:
            self._admission.leave(self.address)
        self._counters.connection_closed(self.close_reason or lost_reason(exc, self.peer))
        self._admission.buffers.forget(self._memory_came_back)
        if self._large is not None:
            self._large.give_back()
        self._responses.abandon()
        self._taken_carry()
        self._large = self._transport = self._handler = None
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._write_paused = True
        self.pause_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._responses.waiting:
            self.response_completed()
        self._continue()

    # --- frames -----------------------------------------------------------------------------

    def _handle_frames(self, end: int) -> None:
        """Handle every whole frame in the first `end` bytes of the shared buffer; carry the rest.

        This loop runs for every request: it makes no object but what the handler makes.
        """
        handler = self._handler
        if handler is None:
            return
        view, handle = self._receive.whole, handler.handle_frames
        unpack, frame_bytes_max = LENGTH.unpack_from, self._admission.limits.frame_bytes_max
        waiting, out = self._responses.waiting, self._responses.out
        position = frames = 0
        monotonic = self._admission.monotonic
        look_at, turn_ends_s = FRAMES_UNTIMED, monotonic() + TURN_S
        try:
            while end - position >= 4:
                (size,) = unpack(view, position)
                body_start = position + 4
                frame_end = body_start + size
                if size < 2 or size > frame_bytes_max:
                    raise size_error(bytes(view[position:body_start]), frame_bytes_max)
                if frame_end > end:
                    if size > CARRIED_BYTES_MAX:
                        position = self._begin_large_frame(size, body_start, end, position)
                    break
                answer, count, position = handle(view, body_start, frame_end, end, self)
                frames += count
                if answer.__class__ is bytes and not waiting and len(answer) <= JOINED_BYTES_MAX:
                    out.append(answer)
                elif answer is not None:
                    if self._take_answer(answer):
                        break
                    out = self._responses.out  # a large answer has been written out
                elif self.close_reason is not None:
                    break  # what comes behind the request that it was closed for is not done
                if frames >= look_at:
                    look_at = frames + FRAMES_UNTIMED
                    if monotonic() > turn_ends_s:
                        self._end_turn()
                        break
        except Exception as error:
            self._close_for(error)
            return
        self._end_read(frames, position, end)
        if self._next_read.size_bytes:
            one = frames == 1 and position == end
            if self._next_read.ended(brought_one_frame=one, is_cut=self._large is not None):
                self._large_frame_handled(monotonic() - turn_ends_s + TURN_S)

    def _end_read(self, frames: int, position: int, end: int) -> None:
        """Carry what is left after `frames` whole ones, from `position` on, and keep the limits."""
        if self._large is None and (frames or position == end):
            self._frame_deadline.clear()
        if position < end:
            self._carry = bytes(self._receive.whole[position:end])
            self._admission.buffers.carry(end - position)
            if not self._frame_deadline.is_set:
                self._frame_deadline.begin(self._admission.now_s, 0)
        if self._quota is not None and frames:
            self._throttle(self._quota.take(frames, self._admission.monotonic()))
        if end == RECEIVE_BYTES:  # libuv reads on as long as reads are full and nobody stops it
            self._end_turn()

    def _taken_carry(self) -> bytes:
        """Return what was carried; nothing is from now on."""
        carry, self._carry = self._carry, b""
        self._admission.buffers.carry(-len(carry))
        return carry

    def _take_answer(self, answer: Answer) -> bool:
        """Queue or put out one answer; return True when no further frame may be handled now."""
        responses = self._responses
        pending = responses.put(answer)
        if pending is not None:
            pending.attach(self)
            if pending.pauses_reading:
                self.pause_reading()
        if responses.is_full:
            self.pause_reading()
        if responses.has_large_parts:  # the transport says at once whether it has taken enough
            self._write_out()
        return self.is_reading_paused or self.close_reason is not None

    def _begin_large_frame(self, size: int, body_start: int, end: int, position: int) -> int:
        """Move a cut large frame to a buffer of its own; return the position after what moved.

        Where the memory for frames is used up they stay, to be carried, and reading pauses.
        """
        buffer = self._admission.buffers.take(size)
        if buffer is None:
            if not self._waits_for_memory:
                self._waits_for_memory = True
                self._admission.buffers.when_free(self._memory_came_back)
            self.pause_reading()
            return position
        self._large = LargeFrame(self._admission.buffers, buffer, size)
        self._large.copy(self._receive.whole[body_start:end])
        self._frame_deadline.begin(self._admission.now_s, size)
        return end

    def _handle_large_frame(self, large: LargeFrame) -> None:
        """Handle the large frame that has just become whole."""
        self._frame_deadline.clear()
        started_s = self._admission.monotonic()
        try:
            if self._handler is not None:
                answer, _, _ = self._handler.handle_frames(
                    large.view, 0, large.size_bytes, large.size_bytes, self
                )
                if answer is not None:
                    self._take_answer(answer)
        except Exception as error:
            self._close_for(error)
        finally:
            self._large = None
            large.give_back()
        frame_bytes, came_at_once = LENGTH.size + large.size_bytes, large.fills == 1
        self._next_read.after_large_frame(frame_bytes, came_at_once=came_at_once)
        now_s = self._admission.monotonic()
        if self._quota is not None:
            self._throttle(self._quota.take(1, now_s))
        self._large_frame_handled(now_s - started_s)

    def _large_frame_handled(self, spent_s: float) -> None:
        self._busy_s += spent_s
        if self._busy_s > TURN_S:  # a pause for each of them would cost as much as its copy
            self._busy_s = 0.0
            self._end_turn()

    # --- answers ----------------------------------------------------------------------------

    def response_completed(self) -> None:
        """Take note that a pending answer is complete: send all that are, once this turn."""
        if not self._drain_scheduled:
            self._drain_scheduled = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        """Send the answers that are ready, in order, and go on with frames that waited."""
        self._drain_scheduled = False
        responses = self._responses
        while not self._write_paused and responses.release():
            self._write_out()
        if responses.out:
            self._write_out()
        if self.is_reading_paused:
            self._continue()

    def _write_out(self) -> None:
        """Give the transport what the turn has to say, in one call where one will do."""
        if self._transport is not None:
            self._responses.write_out(self._transport)

    # --- pauses -----------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Handle no further frame for now."""
        if not self.is_reading_paused and self._transport is not None:
            self.is_reading_paused = True
            self._transport.pause_reading()

    def _continue(self) -> None:
        """Handle frames that waited and read on, if nothing stands against it any more."""
        if not self.is_reading_paused or self._transport is None or self._must_wait():
            return
        self.is_reading_paused = False
        self._frame_deadline.clear()
        if self._large is not None:
            self._frame_deadline.begin(self._admission.now_s, self._large.size_bytes)
        elif self._carry:
            carry = self._taken_carry()
            self._receive.whole[: len(carry)] = carry
            self._handle_frames(len(carry))
            if self._responses.out:
                self._write_out()
        if not self.is_reading_paused and self._transport is not None:
            self._transport.resume_reading()

    def _must_wait(self) -> bool:
        if self._write_paused or self._throttled or self._waits_for_memory:
            return True
        if self._admission.is_draining or self.close_reason is not None:
            return True
        return self._responses.is_full or self._responses.holds_reading

    def _end_turn(self) -> None:
        """Leave the rest of what came, and what is still to be read, to the loop's next turn."""
        self.pause_reading()
        self._loop.call_soon(self._continue)

    def _memory_came_back(self) -> None:
        self._waits_for_memory = False
        self._loop.call_soon(self._continue_with_memory)

    def _continue_with_memory(self) -> None:
        self._continue()
        if not self._waits_for_memory:  # there is room to spare, or this one has no use for it
            self._admission.buffers.wake_next()

    def _throttle(self, wait_s: float) -> None:
        if wait_s > 0:
            self._throttled = True
            self.pause_reading()
            self._loop.call_later(wait_s, self._throttle_over)

    def _throttle_over(self) -> None:
        self._throttled = False
        self._continue()

    # --- for handlers and the listener --------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """True when nothing of this connection is under way but perhaps bytes not yet read."""
        unsent = self._transport is not None and self._transport.get_write_buffer_size()
        return not self._responses.waiting and not unsent

    def overdue(self, now_s: float) -> str | None:
        """Return why the connection should be closed for its slowness, or None."""
        deadline = self._frame_deadline
        others_wait = self._large is not None and self._admission.buffers.is_short  # paused or not
        is_late = others_wait and deadline.is_over(now_s, is_size_allowed_for=False)
        is_frame_due = (self._carry or self._large is not None) and not self.is_reading_paused
        if is_late or (is_frame_due and deadline.is_over(now_s)):
            return "frame_timeout"
        unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        is_idle = self.idleness.is_over(now_s, len(self._responses.waiting), unsent)
        return "idle" if is_idle else None

    def close(self, reason: str, *, detail: str = "") -> None:
        """Close the connection; what was answered before still leaves where it can."""
        if self.close_reason is None:
            self.close_reason = reason
            log.info("connection closed", peer=self.peer, reason=reason, detail=detail or None)
        if self._responses.out:
            self._write_out()
        if self._transport is not None:
            self._transport.close()

    def _close_for(self, error: Exception) -> None:
        if isinstance(error, FrameError):
            self.close("bad_frame", detail=str(error))
        else:
            log.exception("request failed", peer=self.peer)
            self.close("internal_error")

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        self.close_reason = self.close_reason or reason
        if self._transport is not None:
            self._transport.abort()
