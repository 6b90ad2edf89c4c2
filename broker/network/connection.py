"""Connection: bytes of one client in, frames to its handler, answers out in request order.

Reading costs no allocation: small frames are parsed where the kernel put them, in one buffer that
all connections of a loop share (a read and its parsing are one step); what is left of a cut frame
is carried to the next read. A frame too large for that is received into a pooled buffer of its
own. Answers that one read brought about leave in one write.

Reading pauses, and nothing is dropped, while any of these holds: too many answers are waiting, a
request that must not be overtaken is under way, the client does not read its answers, the memory
for frames is used up, or the client is over its request quota.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from typing import Final, cast

import structlog

from broker.network.answers import Answer, FrameHandler
from broker.network.limits import Admission, ClosedConnections
from broker.network.quota import RequestQuota
from broker.network.receive_buffer import SharedReceiveBuffer
from broker.network.response_queue import ResponseQueue
from protocol.errors import FrameError

log = structlog.get_logger("tidelog.network")

LENGTH: Final = struct.Struct(">i")
CARRIED_BYTES_MAX: Final = 16 * 1024
"""A cut frame longer than this gets a buffer of its own instead of being copied along."""
FRAME_RATE_MIN: Final = 32 * 1024
"""Bytes a second below which a frame counts as withheld."""


class Connection(asyncio.BufferedProtocol):
    """One client's connection. Everything here happens on the event loop's thread."""

    __slots__ = (
        "_admission",
        "_admitted",
        "_body",
        "_body_filled",
        "_body_view",
        "_carry",
        "_counters",
        "_drain_scheduled",
        "_frame_bytes_max",
        "_frame_deadline_s",
        "_gathers",
        "_handler",
        "_last_frame_was_large",
        "_loop",
        "_make_handler",
        "_on_lost",
        "_quota",
        "_receive",
        "_requests_in_flight_max",
        "_responses",
        "_throttled",
        "_transport",
        "_waits_for_memory",
        "_write_paused",
        "address",
        "close_reason",
        "is_reading_paused",
        "last_read_s",
        "peer",
    )

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
        self._frame_bytes_max = admission.limits.frame_bytes_max
        self._requests_in_flight_max = admission.limits.requests_in_flight_max
        self._handler: FrameHandler | None = None
        self._transport: asyncio.Transport | None = None
        self._admitted = False
        self._responses = ResponseQueue()
        self._carry = b""  # the start of a cut frame, or frames that wait for a pause to end
        self._body: bytearray | None = None  # of a large frame that is being received
        self._body_view = self._receive.view
        self._body_filled = 0
        self._last_frame_was_large = False
        self._frame_deadline_s = 0.0
        self._quota: RequestQuota | None = None
        self._gathers = False
        self._throttled = self._write_paused = self._waits_for_memory = False
        self._drain_scheduled = False
        self.is_reading_paused = False
        self.last_read_s = admission.now_s
        self.peer = self.address = ""
        self.close_reason: str | None = None

    # --- from the transport ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._gathers = type(transport).__module__.startswith("uvloop")
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
        if self._body is not None:
            return self._body_view[self._body_filled :]
        carry = self._carry
        if carry:
            view = self._receive.view
            view[: len(carry)] = carry
            return view[len(carry) :]
        return self._receive.after_large if self._last_frame_was_large else self._receive.view

    def buffer_updated(self, nbytes: int) -> None:
        self.last_read_s = self._admission.now_s
        if self._body is not None:
            self._body_filled += nbytes
            if self._body_filled == len(self._body_view):
                self._handle_body()
        else:
            end = nbytes
            if self._carry:
                end += len(self._carry)
                self._carry = b""
            self._handle_frames(end)
        if self._responses.out:
            self._write_out()

    def eof_received(self) -> bool:
        return False  # close; answers already written still leave

    def connection_lost(self, exc: Exception | None) -> None:
        if self._admitted:
            self._admission.leave(self.address)
        self._counters.connection_closed(self.close_reason or ("error" if exc else "client"))
        self._admission.buffers.forget(self._memory_came_back)
        self._give_body_back()
        self._responses.abandon()
        self._carry, self._transport, self._handler = b"", None, None
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._write_paused = True
        self._pause_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._continue()

    # --- frames -----------------------------------------------------------------------------

    def _handle_frames(self, end: int) -> None:
        """Handle every whole frame in the first `end` bytes of the shared buffer; carry the rest.

        This loop runs for every request: it makes no object but what the handler makes.
        """
        handler = self._handler
        if handler is None:
            return
        view, handle = self._receive.view, handler.handle_frame
        unpack, frame_bytes_max = LENGTH.unpack_from, self._frame_bytes_max
        waiting, out = self._responses.waiting, self._responses.out
        position = frames = 0
        self._last_frame_was_large = False
        try:
            while end - position >= 4:
                (size,) = unpack(view, position)
                body_start = position + 4
                frame_end = body_start + size
                if size < 2 or size > frame_bytes_max:
                    raise FrameError(f"a frame of {size} bytes is outside 2 to {frame_bytes_max}")
                if frame_end > end:
                    if size > CARRIED_BYTES_MAX:
                        position = self._begin_body(size, body_start, end, position)
                    break
                position = frame_end
                frames += 1
                answer = handle(view[body_start:frame_end], self)
                if answer.__class__ is bytes and not waiting:
                    out.append(answer)
                elif answer is not None:
                    if self._take_answer(answer):
                        break
                    out = self._responses.out  # a large answer has been written out
        except FrameError as error:
            self.close("bad_frame", detail=str(error))
            return
        except Exception:
            log.exception("request failed", peer=self.peer)
            self.close("internal_error")
            return
        if self._body is None and (frames or position == end):
            self._frame_deadline_s = 0.0
        if position < end:
            self._carry = bytes(view[position:end])
            if not self._frame_deadline_s:
                self._set_frame_deadline(0)
        if self._quota is not None and frames:
            self._throttle(self._quota.take(frames, time.monotonic()))

    def _set_frame_deadline(self, size: int) -> None:
        """Say when a frame of `size` bytes that has begun must be whole."""
        admission = self._admission
        allowed_s = admission.limits.frame_timeout_s + size / FRAME_RATE_MIN
        self._frame_deadline_s = admission.now_s + allowed_s

    def _take_answer(self, answer: Answer) -> bool:
        """Queue or put out one answer; return True when no further frame may be handled now."""
        responses = self._responses
        pending = responses.put(answer)
        if pending is not None:
            pending.attach(self)
            if pending.pauses_reading:
                self._pause_reading()
        if len(responses.waiting) >= self._requests_in_flight_max:
            self._pause_reading()
        if responses.has_large_parts:  # the transport says at once whether it has taken enough
            self._write_out()
        return self.is_reading_paused

    def _begin_body(self, size: int, body_start: int, end: int, position: int) -> int:
        """Move a cut large frame to a buffer of its own; return the position after what moved.

        When the memory for frames is used up the bytes stay where they are, to be carried, and
        the connection waits with reading paused.
        """
        buffer = self._admission.buffers.take(size)
        if buffer is None:
            if not self._waits_for_memory:
                self._waits_for_memory = True
                self._admission.buffers.when_free(self._memory_came_back)
            self._pause_reading()
            return position
        self._body, self._body_view = buffer, memoryview(buffer)[:size]
        self._body_filled = end - body_start
        self._body_view[: self._body_filled] = self._receive.view[body_start:end]
        self._set_frame_deadline(size)
        return end

    def _handle_body(self) -> None:
        """Handle the large frame that has just become whole."""
        view, handler = self._body_view, self._handler
        self._last_frame_was_large = True
        try:
            if handler is not None:
                answer = handler.handle_frame(view, self)
                if answer is not None:
                    self._take_answer(answer)
        except FrameError as error:
            self.close("bad_frame", detail=str(error))
        except Exception:
            log.exception("request failed", peer=self.peer)
            self.close("internal_error")
        finally:
            del view
            self._give_body_back()
        if self._quota is not None:
            self._throttle(self._quota.take(1, time.monotonic()))

    def _give_body_back(self) -> None:
        if self._body is not None:
            body, self._body = self._body, None
            self._body_view, self._body_filled = self._receive.view, 0
            self._admission.buffers.give_back(body)

    # --- answers ----------------------------------------------------------------------------

    def response_completed(self) -> None:
        """Take note that a pending answer is complete: send all that are, once this turn."""
        if not self._drain_scheduled:
            self._drain_scheduled = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        """Send the answers that are ready, in order, and go on with frames that waited."""
        self._drain_scheduled = False
        self._responses.release()
        if self._responses.out:
            self._write_out()
        if self.is_reading_paused:
            self._continue()

    def _write_out(self) -> None:
        """Give the transport what the turn has to say, in one call where one will do."""
        parts, transport = self._responses.take_out(), self._transport
        if transport is None or transport.is_closing():
            return
        if len(parts) == 1:
            transport.write(parts[0])
        elif self._gathers:
            transport.writelines(parts)
        else:
            for part in parts:  # asyncio's own transport would copy them all into one
                transport.write(part)

    # --- pauses -----------------------------------------------------------------------------

    def _pause_reading(self) -> None:
        if not self.is_reading_paused and self._transport is not None:
            self.is_reading_paused = True
            self._transport.pause_reading()

    def _continue(self) -> None:
        """Handle frames that waited and read on, if nothing stands against it any more."""
        if not self.is_reading_paused or self._transport is None or self._must_wait():
            return
        self.is_reading_paused = False
        self._set_frame_deadline(len(self._body_view) if self._body is not None else 0)
        if self._carry and self._body is None:
            carry, self._carry = self._carry, b""
            self._receive.view[: len(carry)] = carry
            self._handle_frames(len(carry))
            if self._responses.out:
                self._write_out()
        if not self.is_reading_paused and self._transport is not None:
            self._transport.resume_reading()

    def _must_wait(self) -> bool:
        if self._write_paused or self._throttled or self._waits_for_memory:
            return True
        if self._admission.is_draining or self._responses.holds_reading:
            return True
        return len(self._responses.waiting) >= self._requests_in_flight_max

    def _memory_came_back(self) -> None:
        self._waits_for_memory = False
        self._loop.call_soon(self._continue)

    def _throttle(self, wait_s: float) -> None:
        if wait_s > 0:
            self._throttled = True
            self._pause_reading()
            self._loop.call_later(wait_s, self._throttle_over)

    def _throttle_over(self) -> None:
        self._throttled = False
        self._continue()

    # --- for handlers and the listener --------------------------------------------------------

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    @property
    def is_idle(self) -> bool:
        """True when nothing of this connection is under way but perhaps bytes not yet read."""
        transport = self._transport
        return not self._responses.waiting and (
            transport is None or transport.get_write_buffer_size() == 0
        )

    def stop_reading(self) -> None:
        """Handle no further frame: the broker is draining."""
        self._pause_reading()

    def overdue(self, now_s: float) -> str | None:
        """Return why the connection should be closed for its slowness, or None."""
        if (self._carry or self._body is not None) and not self.is_reading_paused:
            return "frame_timeout" if now_s > self._frame_deadline_s else None
        if self._responses.waiting:
            return None  # a long poll, or a produce that waits: the client may well be silent
        idle_s = now_s - self.last_read_s
        return "idle" if idle_s > self._admission.limits.idle_timeout_s else None

    def close(self, reason: str, *, detail: str = "") -> None:
        """Close the connection; what was answered before still leaves where it can."""
        if self.close_reason is None:
            self.close_reason = reason
            log.info("connection closed", peer=self.peer, reason=reason, detail=detail or None)
        if self._responses.out:
            self._write_out()
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        self.close_reason = self.close_reason or reason
        if self._transport is not None:
            self._transport.abort()
