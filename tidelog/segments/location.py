"""Location: where files are, on this machine or in an object store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import ArrowInvalid
from pyarrow.fs import FileSystem, FSSpecHandler, LocalFileSystem, PyFileSystem

from tidelog.segments.errors import DataLossError, OptionError

__all__ = ["Location", "locate", "opened", "without_secrets"]


class Location(NamedTuple):
    """A path in a file system of pyarrow's."""

    filesystem: Any
    path: str

    def __str__(self) -> str:
        return self.path

    def child(self, name: str) -> Location:
        return Location(self.filesystem, f"{self.path.rstrip('/')}/{name}")


def locate(path: str | Path, filesystem: Any = None) -> Location:
    """Return where a path leads.

    Args:
        path: Of this machine; or a URL such as `s3://bucket/logs`, which pyarrow knows, or fsspec
            where that is installed.
        filesystem: Of pyarrow or fsspec, to which the path belongs.

    Raises:
        OptionError: nobody knows the URL's scheme.
    """
    text = os.fspath(path)
    if filesystem is not None:
        if not isinstance(filesystem, FileSystem):
            filesystem = PyFileSystem(FSSpecHandler(filesystem))
        return Location(filesystem, text)
    if "://" not in text:
        return Location(LocalFileSystem(), os.path.abspath(text))
    try:
        return Location(*FileSystem.from_uri(text))
    except (ArrowInvalid, NotImplementedError) as error:
        return _by_fsspec(text, error)


def _by_fsspec(url: str, problem: Exception) -> Location:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise OptionError(
            f"{without_secrets(url)} cannot be read: {problem} (fsspec may know it)"
        ) from problem
    try:
        filesystem, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise OptionError(f"{without_secrets(url)} cannot be read: {error}") from error
    return Location(PyFileSystem(FSSpecHandler(filesystem)), path)


def without_secrets(path: str) -> str:
    """Return a path or URL without user, password and query, to be shown or kept."""
    scheme, separator, rest = path.partition("://")
    if not separator:
        return path
    host, slash, tail = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{tail}"


@contextmanager
def opened(
    location: Location, path: str, first_offset: int, end_offset: int | None
) -> Iterator[Any]:
    """Open a segment to read in it at any place. While it is open, a deletion does not matter.

    Args:
        first_offset, end_offset: What is wanted of it, for the error.

    Raises:
        DataLossError: it is gone, though it was listed: retention has overtaken the reader.
    """
    try:
        file = location.filesystem.open_input_file(path)
    except FileNotFoundError:
        upto = "on" if end_offset is None else f"to {end_offset - 1}"
        raise DataLossError(
            f"{path} is gone, and with it what was wanted of it: offsets {first_offset} {upto}; "
            "retention has deleted it"
        ) from None
    with file:
        yield file
