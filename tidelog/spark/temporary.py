"""Temporary directories that are there as long as the process that made them.

Each has a file that its process holds a lock on; so who makes the next one can tell those whose
process was killed from those in use, and removes them.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["temporary_directory"]

LOCK: Final = ".in-use"

_held: list[int] = []
"""Descriptors of the locks, open until this process ends."""


def temporary_directory(prefix: str) -> Path:
    """Make a directory that is gone with this process; remove left ones of that prefix."""
    _remove_left(prefix)
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    unlocked = directory / f"{LOCK}.new"
    descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unlocked.rename(directory / LOCK)  # nobody looks at it before it is locked
    _held.append(descriptor)
    return directory


def _remove_left(prefix: str) -> None:
    for lock in Path(tempfile.gettempdir()).glob(f"{prefix}*/{LOCK}"):
        try:
            if lock.parent.lstat().st_uid != os.getuid():
                continue
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # it is gone already
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # its process is alive
            continue
        else:
            shutil.rmtree(lock.parent, ignore_errors=True)
        finally:
            os.close(descriptor)
