"""KernelAio: fdatasync of open files without a thread that waits for it (Linux AIO, io_submit(2)).

The kernel syncs in its own workers and adds to an eventfd when one has ended. A thread of Python
that sits in fdatasync costs two hand-overs of the interpreter lock and a wake-up of the event loop
each time: of a commit of one file it is half the processor time, and a third of the wait
(`docs/adr/0015`). Only the commands of a sync are used; requests and results are `struct iocb` and
`struct io_event` of <linux/aio_abi.h>, little-endian:

    0        8     12       16     18     20      24                56      60
    +--------+-----+--------+------+------+-------+------- - -------+-------+--------+
    |data u64| key |rw_flags|op u16| prio |fd u32 |     nothing     | flags |event fd|   64 bytes
    +--------+-----+--------+------+------+-------+------- - -------+-------+--------+

    0        8              16         24
    +--------+--------------+----------+----------+
    |data u64| request u64  |result i64|   i64    |   32 bytes; a result is 0 or minus an errno
    +--------+--------------+----------+----------+
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

IOCB: Final = struct.Struct("<QIIHhI32xII")
EVENT: Final = struct.Struct("<QQqq")
assert (IOCB.size, EVENT.size) == (64, 32), "the pictures above and the structs disagree"
FD_POSITION: Final = 20
FD: Final = struct.Struct("<I")

COMMAND_FDSYNC: Final = 3
FLAG_EVENT_FD: Final = 1

_NUMBERS: Final = {
    "x86_64": (206, 207, 208, 209),
    **dict.fromkeys(("aarch64", "riscv64"), (0, 1, 4, 2)),
}
"""System calls by machine: io_setup, io_destroy, io_getevents, io_submit; libc has no names for
them."""


class KernelAio:
    """A context of requests; not for several threads."""

    def __init__(self, requests_max: int) -> None:
        """Args:
        requests_max: How many may be under way at a time.

        Raises:
            OSError: there is none to be had: another system, a filter of system calls, or the
                machine's limit (`fs.aio-max-nr`).
        """
        numbers = _NUMBERS.get(platform.machine())
        if sys.platform != "linux" or sys.byteorder != "little" or numbers is None:
            raise OSError(errno.ENOSYS, "Linux AIO is not known on this kind of machine")
        setup, destroy, get_events, submit = numbers
        long, unsigned_long, pointer = ctypes.c_long, ctypes.c_ulong, ctypes.c_void_p
        self._destroy = _system_call(destroy, unsigned_long)
        self._get_events = _system_call(get_events, unsigned_long, long, long, pointer, pointer)
        self._submit = _system_call(submit, unsigned_long, long, pointer)
        self.event_descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Readable when a request has ended; for the event loop."""
        context = unsigned_long(0)
        if _system_call(setup, long, pointer)(requests_max, ctypes.byref(context)) < 0:
            error = _last_error()
            os.close(self.event_descriptor)
            if error.errno == errno.EAGAIN:
                error.strerror = "the machine's requests, fs.aio-max-nr, are used up"
            raise error
        self._context = context.value
        self.requests_max = requests_max
        self._requests = ctypes.create_string_buffer(IOCB.size * requests_max)
        self._events = ctypes.create_string_buffer(EVENT.size * requests_max)
        start = ctypes.addressof(self._requests)
        places = range(start, start + len(self._requests) - 1, IOCB.size)
        self._pointers = (ctypes.c_void_p * requests_max)(*places)
        for position in range(0, IOCB.size * requests_max, IOCB.size):
            IOCB.pack_into(
                self._requests, position,
                0, 0, 0, COMMAND_FDSYNC, 0, 0, FLAG_EVENT_FD, self.event_descriptor,
            )  # fmt: skip

    def begin(self, descriptors: Sequence[int]) -> int:
        """Start to sync open files, at most `requests_max` at a time; return how many, the first.

        The others are left to the caller: the kernel takes no more just now (EAGAIN).

        Raises:
            OSError: it takes none, and would not later on.
        """
        for position, descriptor in enumerate(descriptors):
            FD.pack_into(self._requests, position * IOCB.size + FD_POSITION, descriptor)
        begun = self._submit(self._context, len(descriptors), self._pointers)
        if begun < 0:
            error = _last_error()
            if error.errno == errno.EAGAIN:
                return 0
            raise error
        return begun

    def ended(self) -> list[int]:
        """Return the results of requests that have ended since: 0, or an errno."""
        try:
            os.eventfd_read(self.event_descriptor)
        except BlockingIOError:
            return []
        count = self._get_events(self._context, 0, self.requests_max, self._events, None)
        if count < 0:
            raise _last_error()
        unpack = EVENT.unpack_from
        return [-unpack(self._events, number * EVENT.size)[2] for number in range(count)]

    def close(self) -> None:
        """Let go of it, once what is under way has ended; a second call does nothing."""
        if self._context:
            self._destroy(self._context)
            self._context = 0
            os.close(self.event_descriptor)


def _system_call(number: int, *arguments: type[Any]) -> Callable[..., int]:
    """Return a system call as a function.

    It keeps the interpreter lock, for none of them blocks but the one that ends a context.
    """
    call = ctypes.PyDLL(None, use_errno=True)["syscall"]
    call.restype, call.argtypes = ctypes.c_long, (ctypes.c_long, *arguments)
    return partial(call, number)


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
