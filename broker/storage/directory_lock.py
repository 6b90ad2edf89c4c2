"""DirectoryLock: one broker per data directory, by two locks of the kernel on one file in it.

Of each other Tidelogs know by flock(2). Apache Kafka locks the same file, `.lock`, with fcntl(2) (a
Java FileLock), and flock does not see those; so both are taken. The fcntl lock is one of the open
file (F_OFD_SETLK): a plain one would be gone as soon as anything in this process closes the file.

The kernel drops both when the process ends, however it ends, so no lock is ever stale. The file
stays: removing it would let two brokers lock two files of one name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Final

from protocol.errors import DataDirectoryError

PID_BYTES_MAX = 20

_WHOLE_FILE_LOCK: Final = struct.Struct("@hhqqi4x")
"""struct flock of 64-bit Linux: type, whence, start, length (0: to the end, wherever), pid."""
_IS_LINUX: Final = sys.platform == "linux"
_SET_LOCK: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None) if _IS_LINUX else None
_GET_LOCK: Final[int | None] = getattr(fcntl, "F_OFD_GETLK", None) if _IS_LINUX else None
_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS})


class DirectoryLock:
    """The lock that this process holds; the file says the holder's process id, for people."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path) -> None:
        """Take the lock at once.

        Raises:
            DataDirectoryError: another process, or another part of this one, holds it.
            OSError: the file cannot be made or opened.
        """
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _lock_as_kafka_does(self._descriptor)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        except BlockingIOError:
            holder = holder_of(self._descriptor)
            self.release()
            raise DataDirectoryError(
                f"{path.parent} is in use by {holder}: stop it, or choose another directory"
            ) from None
        except OSError:
            self.release()
            raise

    def check(self) -> None:
        """Raise OSError if another file, or none, is now where the locked one was."""
        there, held = os.stat(self.path), os.fstat(self._descriptor)
        if (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino):
            raise OSError(errno.ESTALE, "another directory is in its place", str(self.path))

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _lock_as_kafka_does(descriptor: int) -> None:
    """Take an fcntl write lock on the whole file.

    Raises:
        BlockingIOError: a Kafka, or another broker, holds one.
    """
    if _SET_LOCK is None:
        return  # flock has to do
    wanted = _WHOLE_FILE_LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        fcntl.fcntl(descriptor, _SET_LOCK, wanted)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise BlockingIOError(error.errno, error.strerror) from error
        if error.errno not in _UNSUPPORTED:
            raise


def fcntl_lock_holder(descriptor: int) -> int | None:
    """Return the process id that holds an fcntl lock on a file, -1 if the kernel does not tell.

    None: nobody does. Of a file that this process has locked by the same descriptor, too.
    """
    if _GET_LOCK is None:
        return None
    asked = _WHOLE_FILE_LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    try:
        kind, _, _, _, pid = _WHOLE_FILE_LOCK.unpack(fcntl.fcntl(descriptor, _GET_LOCK, asked))
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return None
    return None if kind == fcntl.F_UNLCK else pid


def holder_of(descriptor: int) -> str:
    """Return who holds the lock, as far as the kernel and the file tell.

    The file may be empty for a moment; a Kafka writes nothing into it.
    """
    pid = fcntl_lock_holder(descriptor)
    if pid is not None and pid > 0:  # a lock of a process, as Java takes it; ours say -1
        return f"Apache Kafka, or another program, with process id {pid}"
    text = os.pread(descriptor, PID_BYTES_MAX, 0).strip()
    return f"the broker with process id {int(text)}" if text.isdigit() else "another broker"
