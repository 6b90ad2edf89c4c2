"""DataDirectories: the open log directories of a broker, and those that are missing.

A directory that was in use before and is not there now is probably a disk that was not mounted. To
go on without it would answer readers "empty" where data is, so the start is refused, unless the
directory is named as one that may be missing. The first directory holds the list of topics and may
never be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from protocol.errors import DataDirectoryError, StorageError
from protocol.stored.file_names import DURABLE_OFFSETS, META_PROPERTIES

if TYPE_CHECKING:
    from broker.storage.disk import Disk
    from broker.storage.log_directory import LogDirectory

_log = structlog.get_logger("tidelog.directories")


def check_first_directory(disk: Disk, paths: Sequence[Path]) -> None:
    """Check that the first directory is not one that holds the list of topics and is not mounted.

    Before anything is written into it.

    Raises:
        DataDirectoryError: it is new, but others of ours are not.
    """
    first, *others = paths
    if disk.exists(first / META_PROPERTIES):
        return
    if any(disk.exists(path / DURABLE_OFFSETS) for path in others):
        raise DataDirectoryError(
            f"data directory {first} is {_state(disk, first)}, but others were in use: it held the "
            "list of topics, so mount it; a new directory is to be named after the others"
        )


def missing_directories(
    disk: Disk,
    paths: Sequence[Path],
    *,
    known: Collection[str],
    allow_missing: Collection[Path],
) -> set[int]:
    """Return which of the configured directories, by number, are missing and may be.

    Args:
        known: Directories that were in use before, as absolute paths.

    Raises:
        DataDirectoryError: one is missing that may not be.
    """
    missing: set[int] = set()
    for number, path in enumerate(paths):
        if disk.exists(path / META_PROPERTIES) or str(path) not in known:
            continue  # in use, or new
        if number == 0 or path not in allow_missing:
            raise DataDirectoryError(
                f"data directory {path} was in use before and is {_state(disk, path)}: mount it, "
                "or start with --allow-missing-dir to do without its partitions"
            )
        missing.add(number)
    return missing


def _state(disk: Disk, path: Path) -> str:
    return "empty" if disk.is_directory(path) else "missing"


class DataDirectories:
    """The log directories in the order of the configuration; None stands for a missing one."""

    def __init__(self, paths: Sequence[Path], directories: Sequence[LogDirectory | None]) -> None:
        self.paths, self._directories = tuple(paths), tuple(directories)

    @property
    def cluster_id(self) -> str:
        """What their `meta.properties` say, all the same."""
        ids = (directory.properties.cluster_id for directory in self.present)
        return next((cluster_id for cluster_id in ids if cluster_id), "")

    @classmethod
    def open(
        cls,
        disk: Disk,
        paths: Sequence[Path],
        missing: Collection[int],
        open_one: Callable[[Path], LogDirectory],
    ) -> DataDirectories:
        """Open all directories but the missing ones; new ones are made.

        Raises:
            DataDirectoryError: one cannot be made, is locked, or of a newer format. Those opened
                before it are closed again.
        """
        directories: list[LogDirectory | None] = []
        try:
            for number, path in enumerate(paths):
                if number in missing:
                    _log.error("data directory missing", path=str(path))
                    directories.append(None)
                    continue
                make_directory(disk, path)
                directories.append(open_one(path))
        except BaseException:
            for directory in directories:
                if directory is not None:
                    directory.close(clean=False)
            raise
        return cls(paths, directories)

    @property
    def present(self) -> list[LogDirectory]:
        """Those that can be used."""
        return [directory for directory in self._directories if directory is not None]

    @property
    def missing(self) -> list[Path]:
        """Those that cannot."""
        pairs = zip(self.paths, self._directories, strict=True)
        return [path for path, directory in pairs if directory is None]

    def number(self, number: int) -> LogDirectory:
        """Return a directory that is there, by its number."""
        directory = self._directories[number]
        assert directory is not None, "a missing directory holds nothing"
        return directory

    def numbered(self) -> list[tuple[int, LogDirectory]]:
        """Return (number, directory) of those that can be used."""
        return [(n, directory) for n, directory in enumerate(self._directories) if directory]

    def least_used(
        self, chosen: Mapping[LogDirectory, Sequence[int]] | None = None
    ) -> LogDirectory:
        """Return where a new partition goes: the directory with the fewest; of equals the first.

        Directories that take no appends just now, for want of space, get none.

        Args:
            chosen: Partitions that are about to be made, by directory; they count too.

        Raises:
            StorageError: none takes appends.
        """
        about_to_be = chosen or {}
        open_ones = [each for each in self.present if not each.context.pause]
        if not open_ones:
            raise StorageError(f"no room for new partitions: {self.present[0].context.pause}")
        return min(open_ones, key=lambda each: len(each.logs) + len(about_to_be.get(each, ())))


def make_directory(disk: Disk, path: Path) -> None:
    """Make a data directory if it is not there; its parent must be.

    A parent that is missing is more likely a disk that was not mounted, or a slip of the pen, than
    the wish to have it made.

    Raises:
        DataDirectoryError: it cannot be made, or is no directory, or its parent is missing.
    """
    if disk.is_directory(path):
        return
    if disk.exists(path):
        raise DataDirectoryError(f"{path} is no directory: name another")
    if not disk.is_directory(path.parent):
        raise DataDirectoryError(
            f"data directory {path} cannot be made: {path.parent} is missing: is a disk not "
            "mounted? Else make it first, or name another directory"
        )
    try:
        disk.make_directory(path)
        disk.sync_directory(path.parent)
    except (OSError, StorageError) as error:
        raise DataDirectoryError(f"cannot make data directory {path}: {error}") from error
    _log.info("data directory made: there was none", path=str(path))
