"""The process at the other end of a `worker.WorkerPool`: runs one job after the other.

`python -P -m broker.worker_process DESCRIPTOR PARENT NICE`; the descriptor is a socket to the
broker. Frames, both ways: a length (u32, big-endian) and so many bytes of pickle, a tuple that
begins with what it is:

    to the worker      ("job", number, function, arguments)   ("stop", number)
    from the worker    ("hello",)   ("log", level, name, event, fields)
                       ("progress", number, value)
                       ("result", number, value)   ("error", number, exception, traceback)

It ends when the socket does, or its parent: whoever takes the data directory over must not meet it.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import queue
import signal
import socket
import struct
import sys
import threading
import traceback
from typing import Any, Final

from broker import log_setup, worker_job

LENGTH: Final = struct.Struct(">I")
PR_SET_PDEATHSIG: Final = 1
OOM_SCORE: Final = b"500\n"
"""Of 1000: where memory runs out, the kernel ends a worker rather than the broker."""


def frame(message: tuple[Any, ...]) -> bytes:
    """Return a message with its length.

    Raises:
        Exception: something in it cannot be pickled; of any type.
    """
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(data)) + data


class Worker:
    """This process, as the broker's other end of a socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._sending = threading.Lock()
        self._jobs: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._stopped: set[int] = set()
        self._number = 0

    def run(self) -> None:
        """Work until the socket ends, which ends the process."""
        log_setup.forward(self._log)
        threading.Thread(target=self._listen, name="link", daemon=True).start()
        self._send(("hello",))
        worker_job.connect(self._progress, self._should_stop)
        while True:
            self._run_job(*self._jobs.get())

    def _listen(self) -> None:
        """In a thread of its own: hear the broker while a job runs."""
        stream = self._link.makefile("rb")
        while True:
            head = stream.read(LENGTH.size)
            data = stream.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
            if not data:
                os._exit(0)  # the broker is gone, or wants no more of this process
            try:
                kind, number, *job = pickle.loads(data)  # noqa: S301 - from our own parent
            except Exception:  # a job whose module cannot be imported here
                self._cannot_understand()
            if kind == "job":
                self._jobs.put((number, *job))
            else:
                self._stopped.add(number)

    def _cannot_understand(self) -> None:
        reason = {"exception": traceback.format_exc()}
        self._log(logging.ERROR, "tidelog.worker", "a worker cannot load its job", reason)
        os._exit(1)

    def _run_job(self, number: int, function: Any, arguments: tuple[Any, ...]) -> None:
        self._number = number
        try:
            message: tuple[Any, ...] = ("result", number, function(*arguments))
        except Exception as error:
            message = ("error", number, error, traceback.format_exc())
        try:
            data = frame(message)
        except Exception as error:  # a value or an exception that cannot be pickled
            text = RuntimeError(f"{message[2]!r} cannot be sent: {error}")
            data = frame(("error", number, text, traceback.format_exc()))
        self._stopped.discard(number)
        self._send_frame(data)

    def _progress(self, value: object) -> None:
        self._send(("progress", self._number, value))

    def _should_stop(self) -> bool:
        return self._number in self._stopped

    def _log(self, level: int, name: str, event: str, fields: dict[str, Any]) -> None:
        self._send(("log", level, name, event, fields))

    def _send(self, message: tuple[Any, ...]) -> None:
        self._send_frame(frame(message))

    def _send_frame(self, data: bytes) -> None:
        try:
            with self._sending:
                self._link.sendall(data)
        except OSError:
            os._exit(0)


def settle(parent: int, niceness: int) -> None:
    """Make this a process that ends with its parent, hears no terminal, and stands back."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a service manager tells all; the broker decides
    if sys.platform == "linux":
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        except (AttributeError, OSError):
            pass  # the socket's end says it too, a little later
        try:
            with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
                file.write(OOM_SCORE)
        except OSError:
            pass  # no /proc
    if os.getppid() != parent:
        os._exit(0)  # it ended before that was set up
    if niceness:
        os.nice(niceness)


def main(arguments: list[str]) -> None:
    """Run this process; it never returns."""
    descriptor, parent, niceness = (int(argument) for argument in arguments)
    settle(parent, niceness)
    os.set_inheritable(descriptor, False)
    Worker(socket.socket(fileno=descriptor)).run()


if __name__ == "__main__":
    main(sys.argv[1:])
