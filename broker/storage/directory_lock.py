"""DirectoryLock: one broker per data directory, by flock(2) on a file in it.

The kernel drops the lock when the process ends, however it ends, so no lock is ever stale. The
file stays: removing it would let two brokers lock two files of one name.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from protocol.errors import DataDirectoryError

PID_BYTES_MAX = 20


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
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        except BlockingIOError:
            holder = _holder(self._descriptor)
            self.release()
            raise DataDirectoryError(
                f"{path.parent} is in use by {holder}: stop it, or choose another directory"
            ) from None
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _holder(descriptor: int) -> str:
    """Return who holds the lock, as far as the file tells; it may be empty for a moment."""
    text = os.pread(descriptor, PID_BYTES_MAX, 0).strip()
    return f"the broker with process id {int(text)}" if text.isdigit() else "another broker"
