"""Bytes of a mapped file that the disk does not give, while the kernel sends them."""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.network.answers import Answer
from broker.network.connection import Connection
from broker.network.limits import Admission, ConnectionLimits
from broker.network.receive_buffer import SharedReceiveBuffer
from tests.support.network import ClosedCounter, ConnectionUnderTest, ScriptedHandler

PAGE_BYTES = mmap.PAGESIZE
SENT_BYTES = 64 * PAGE_BYTES


def no_answer(body: bytes) -> Answer:
    raise AssertionError("nothing was asked")


def unreadable_view(path: Path) -> memoryview:
    """A mapping whose second half the file no longer has: to touch it is SIGBUS, as with a bad
    sector, and for a system call EFAULT."""
    path.write_bytes(bytes(SENT_BYTES))
    descriptor = os.open(path, os.O_RDWR)
    try:
        view = memoryview(mmap.mmap(descriptor, SENT_BYTES, mmap.MAP_SHARED, mmap.PROT_READ))
        os.ftruncate(descriptor, SENT_BYTES // 2)
    finally:
        os.close(descriptor)
    return view


async def send_to_client(view: memoryview) -> tuple[bytes, list[str]]:
    """Send it over a real socket; return what the client got, and why the connection ended."""
    loop = asyncio.get_running_loop()
    closed = ClosedCounter()
    lost: asyncio.Future[Connection] = loop.create_future()
    made: list[Connection] = []

    def make() -> Connection:
        made.append(
            Connection(
                loop,
                Admission(ConnectionLimits(), loop.time),
                SharedReceiveBuffer(),
                lambda connection: ScriptedHandler(no_answer),
                closed,
                lost.set_result,
            )
        )
        return made[-1]

    server = await loop.create_server(make, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        while not made or made[0]._transport is None:
            await asyncio.sleep(0)
        made[0]._transport.writelines([b"head", view])
        await lost
        try:
            received = await reader.read()
        except ConnectionError:  # it was reset in the middle of the answer
            received = b""
        writer.close()
    return received, closed.reasons


def test_given_a_mapped_file_that_cannot_be_read_when_sent_then_that_connection_ends_and_it_is_said(
    tmp_path: Path,
):
    """The process lives, or this test would not end."""
    uvloop = pytest.importorskip("uvloop")
    view = unreadable_view(tmp_path / "log")

    with capture_logs() as events, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        received, reasons = runner.run(send_to_client(view))

    assert len(received) < SENT_BYTES
    assert reasons == ["unreadable file"]
    assert [each["log_level"] for each in events if "cannot be read" in each["event"]] == ["error"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, "client"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "error"),
        (OSError(errno.EFAULT, "Bad address"), "unreadable file"),
        (OSError(errno.EIO, "Input/output error"), "unreadable file"),
    ],
)
def test_given_a_lost_connection_when_counted_then_a_disks_fault_is_told_from_a_clients(
    error: Exception | None, reason: str
):
    under_test = ConnectionUnderTest(no_answer)

    under_test.connection.connection_lost(error)

    assert under_test.closed.reasons == [reason]
