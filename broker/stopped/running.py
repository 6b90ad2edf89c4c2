"""Running: whether a broker holds a data directory just now."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from broker.storage.directory_lock import fcntl_lock_holder, holder_of
from protocol.errors import DataDirectoryError
from protocol.stored.file_names import LOCK_FILE


def refuse_running(data_directory: Path) -> None:
    """Refuse a directory that a broker works on, this one or a Kafka: its files change meanwhile.

    The lock is only tried, nothing is written; a directory without a lock file is free.

    Raises:
        DataDirectoryError: a broker holds the lock, or this is no directory.
    """
    try:
        descriptor = os.open(data_directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise DataDirectoryError(f"{data_directory} is no directory: name another") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if fcntl_lock_holder(descriptor) is not None:
            raise DataDirectoryError(
                f"{data_directory} is in use by {holder_of(descriptor)}: stop it first"
            )
    except BlockingIOError:
        raise DataDirectoryError(
            f"{data_directory} is in use by a running broker: stop it first"
        ) from None
    finally:
        os.close(descriptor)
