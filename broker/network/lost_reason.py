"""Lost reason: why a connection was lost that nobody here has closed.

What is sent of a mapped file only the kernel reads. Where the disk does not give it the bytes, that
is no signal to this process but an error of the system call: the connection ends, in the middle of
an answer, and its client asks again. Then the bytes are read by this process, for nobody has them
in memory, and the partition answers an error.
"""

from __future__ import annotations

import errno
from typing import Final

import structlog

_log = structlog.get_logger("tidelog.network")

UNREADABLE: Final = frozenset({errno.EFAULT, errno.EIO})
"""What a send says of bytes that cannot be read; no socket says so of itself."""


def lost_reason(error: Exception | None, peer: str) -> str:
    """Return it in a word, for the metrics; a disk's fault is said aloud too."""
    if error is None:
        return "client"
    if isinstance(error, OSError) and error.errno in UNREADABLE:
        _log.error(
            "a log file that was being sent cannot be read: look at its disk",
            peer=peer,
            error=error.strerror,
        )
        return "unreadable file"
    return "error"
