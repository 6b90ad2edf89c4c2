"""Process limits: open files, which a shell or a service manager may have set too low."""

from __future__ import annotations

import resource
import sys
from typing import Final

import structlog

from broker.config import Config

log = structlog.get_logger("tidelog.daemon")

OTHER_FILES: Final = 256
"""Sockets that listen, the registry, small files, what libraries open."""


IDLE_FILES_PART: Final = 8
"""One part in so many of all descriptors for idle files, and one for mapped files, which before
Python 3.13 hold one each."""

PINNED_FILES_PART: Final = 2
"""And one for files with unflushed bytes; the rest is for connections and all else."""

FILES_MIN: Final = 16


def files_fitting(part: int, directory_count: int, *, wanted: int = sys.maxsize) -> int:
    """Return how many files of one kind each data directory may hold open, `wanted` at most.

    One part in `part` of what the process may have open, shared by the directories.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(FILES_MIN, soft // part // directory_count))


def open_files_wanted(config: Config) -> int:
    """Return how many descriptors the configuration may use at once."""
    storage = config.storage
    per_directory = storage.open_files_max + storage.mapped_files_max
    return config.limits.connections_max + len(storage.data_dirs) * per_directory + OTHER_FILES


def raise_open_files_limit(config: Config) -> None:
    """Lift the soft limit to the hard one; warn if the configuration may want more."""
    wanted = open_files_wanted(config)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    target = wanted if hard == unlimited else min(wanted, hard)
    if soft not in (unlimited,) and soft < target:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            soft = target
        except (OSError, ValueError) as error:
            log.warning("open file limit cannot be raised", error=str(error))
    if soft != unlimited and soft < wanted:
        log.warning(
            "open file limit is low: connections may be refused before limits.connections_max",
            limit=soft,
            wanted=wanted,
        )
