"""The least that a server of the same kind can do: uvloop, BufferedProtocol, nothing else.

    sink    writes what comes in to a new file, answers 26 bytes for each frame
    slices  answers each frame with the next mapped slice of a file; `slices:16384` of so many bytes
    echo    answers each frame with a write of 12 bytes
    replies answers all frames of a read with one write of 12 bytes for each

Run as `python -m bench.floor KIND FILE READY_FILE`.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import cast

import uvloop

LENGTH = struct.Struct(">i")
RECEIVE_BYTES = 256 * 1024
ECHO = bytes(12)
PRODUCE_ANSWER = bytes(26)
"""As long as the broker's answer to a PRODUCE."""


class Frames(asyncio.BufferedProtocol):
    """Cuts the stream into frames in one buffer that grows to the largest of them."""

    def __init__(self) -> None:
        self.buffer = bytearray(RECEIVE_BYTES)
        self.view = memoryview(self.buffer)
        self.filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.view[self.filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self.filled += nbytes
        position = frames = 0
        while self.filled - position >= 4:
            (size,) = LENGTH.unpack_from(self.view, position)
            end = position + 4 + size
            if end > self.filled:
                if size + 4 > len(self.view):
                    self.grow(size + 4)
                break
            self.frame(position, end)
            position = end
            frames += 1
        rest = self.filled - position
        if position and rest:
            self.view[:rest] = bytes(self.view[position : self.filled])
        self.filled = rest
        if frames:
            self.answer(frames)

    def grow(self, size: int) -> None:
        grown = bytearray(size)
        grown[: self.filled] = self.view[: self.filled]
        self.view = memoryview(grown)

    def frame(self, start: int, end: int) -> None:
        pass

    def answer(self, frames: int) -> None:
        self.transport.write(ECHO * frames)


class Echo(Frames):
    """Answers each frame by itself: what a server does that only knows one request at a time."""

    def frame(self, start: int, end: int) -> None:
        self.transport.write(ECHO)

    def answer(self, frames: int) -> None:
        pass


class Sink(Frames):
    """Writes each frame to the file, where the last one ended."""

    descriptor = -1
    position = 0

    def frame(self, start: int, end: int) -> None:
        Sink.position += os.pwrite(self.descriptor, self.view[start:end], Sink.position)

    def answer(self, frames: int) -> None:
        self.transport.write(PRODUCE_ANSWER * frames)


class Slices(Frames):
    """Sends mapped slices, one for each frame, round and round."""

    mapped = memoryview(b"")
    position = 0
    slice_bytes = 1024 * 1024

    def answer(self, frames: int) -> None:
        for _ in range(frames):
            end = Slices.position + self.slice_bytes
            if end > len(self.mapped):
                Slices.position, end = 0, self.slice_bytes
            head = LENGTH.pack(self.slice_bytes + 2) + b"\0\0"
            self.transport.writelines([head, self.mapped[Slices.position : end]])
            Slices.position = end


async def serve(kind: str, file: Path, ready: Path) -> None:
    kind, _, size = kind.partition(":")
    protocol: type[Frames] = {"sink": Sink, "slices": Slices, "echo": Echo, "replies": Frames}[kind]
    if kind == "sink":
        Sink.descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_TRUNC)
    elif kind == "slices":
        descriptor = os.open(file, os.O_RDONLY)
        Slices.mapped = memoryview(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ))
        Slices.slice_bytes = int(size or Slices.slice_bytes)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    await loop.create_server(protocol, sock=listening)
    ready.write_text(str(listening.getsockname()[1]))  # noqa: ASYNC240 once, before it serves
    await stopped.wait()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
