"""Store: the files of a lake, in a directory of this machine or in any file system of pyarrow's.

A lake asks three things of it. A file is durable when its writer has closed it. A file can be
created only where there is none: that is what makes one of two writers the first. And a file can
be moved. On this machine these are fsync, link and rename, each with an fsync of the directory.
"""

from __future__ import annotations

import abc
import contextlib
import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyarrow.fs import FileSelector, FileType, LocalFileSystem, SubTreeFileSystem

from tidelog.lake.errors import LakeError, UnsafeStoreError
from tidelog.segments.location import Location, locate

__all__ = [
    "ArrowStore", "LocalStore", "Store", "StoredFile", "check_writable", "locate_lake",
    "open_store",
]  # fmt: skip

CREATE_ONLY_PROTOCOLS: Final = frozenset({"gcs", "gs", "memory", "s3", "s3a"})
"""Of fsspec: those whose `pipe_file(mode="create")` is one conditional request."""
UNSAFE: Final = (
    "cannot create a file only where there is none, so that two writers could not tell who was "
    "first: use a file system of s3fs or gcsfs, or say that there is a single writer"
)
NO_LINKS: Final = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)
SCHEMES: Final = {"gcs": "gs", "s3a": "s3"}
"""Of URLs, by file system, where the two differ."""


class StoredFile(NamedTuple):
    """A file of a listing."""

    path: str
    """Relative to the store's root."""
    size_bytes: int


class Store(abc.ABC):
    """A tree of files; paths are relative to its root, with `/` between names."""

    @abc.abstractmethod
    def location(self, path: str) -> Location:
        """Return where pyarrow finds a file."""

    @abc.abstractmethod
    def url(self, path: str) -> str:
        """Return the URL of a file, for other libraries; nothing in it is quoted."""

    @abc.abstractmethod
    def read(self, path: str) -> bytes:
        """Return what a file holds. FileNotFoundError if it is not there."""

    @abc.abstractmethod
    def size(self, path: str) -> int | None:
        """Return a file's bytes; None if it is not there."""

    @abc.abstractmethod
    def files(self, directory: str) -> list[StoredFile]:
        """Return all files below a directory; none if it is not there."""

    @abc.abstractmethod
    def modified_s(self, path: str) -> float | None:
        """Return when a file was written, in seconds since 1970; None if nobody says."""

    @abc.abstractmethod
    def create(self, path: str) -> contextlib.AbstractContextManager[Any]:
        """Open a new file for writing: durable once the block ends, no promise if it raises."""

    @abc.abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file, durably and whole or not at all; False if it is there already.

        UnsafeStoreError if the file system cannot do that.
        """

    @abc.abstractmethod
    def move(self, source: str, target: str) -> bool:
        """Rename a file; False if it is not there. Durable after `sync` only."""

    @abc.abstractmethod
    def remove(self, path: str) -> None:
        """Delete a file, if it is there. Durable after `sync` only."""

    @abc.abstractmethod
    def sync(self, paths: Iterable[str]) -> None:
        """Make durable that these files are there, or are not."""


class LocalStore(Store):
    """A directory of this machine."""

    def __init__(self, root: Path, *, is_single_writer: bool = False) -> None:
        """Args:
        is_single_writer: As of `ArrowStore`; for a mount without hard links.
        """
        self.root, self._is_single_writer = root, is_single_writer

    def location(self, path: str) -> Location:
        return Location(LocalFileSystem(), str(self.root / path))

    def url(self, path: str) -> str:
        return f"file://{self.root / path}"

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def size(self, path: str) -> int | None:
        try:
            return (self.root / path).stat().st_size
        except FileNotFoundError:
            return None

    def files(self, directory: str) -> list[StoredFile]:
        found = []
        for parent, _, names in os.walk(self.root / directory):
            for name in names:
                path = Path(parent, name)
                with contextlib.suppress(FileNotFoundError):  # moved since it was listed
                    size_bytes = path.stat().st_size
                    found.append(StoredFile(path.relative_to(self.root).as_posix(), size_bytes))
        return sorted(found)

    def modified_s(self, path: str) -> float | None:
        try:
            return (self.root / path).stat().st_mtime
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[Any]:
        full = self.root / path
        _make_directory(full.parent)
        with full.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _sync_directory(full.parent)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        full = self.root / path
        draft = f"{path}.{uuid.uuid4().hex}.draft"
        with self.create(draft) as file:
            file.write(data)
        try:
            self._put(self.root / draft, full)
        except FileExistsError:
            return False
        finally:
            (self.root / draft).unlink(missing_ok=True)
        _sync_directory(full.parent)
        return True

    def _put(self, draft: Path, full: Path) -> None:
        try:
            os.link(draft, full)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            if not self._is_single_writer:
                raise UnsafeStoreError(f"{self.root} has no hard links: it {UNSAFE}") from error
            if full.exists():
                raise FileExistsError(full) from error
            draft.rename(full)

    def move(self, source: str, target: str) -> bool:
        full = self.root / target
        _make_directory(full.parent)
        try:
            (self.root / source).rename(full)
        except FileNotFoundError:
            return False
        return True

    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    def sync(self, paths: Iterable[str]) -> None:
        for directory in sorted({(self.root / path).parent for path in paths}):
            _sync_directory(directory)


class ArrowStore(Store):
    """A directory of a file system of pyarrow's, such as a bucket of an object store.

    A move is a copy and a deletion there: it costs a request or two on the side of the store.
    """

    def __init__(self, root: Location, *, is_single_writer: bool = False) -> None:
        """Args:
        is_single_writer: The caller knows that nobody else writes: then looking whether a file is
            there, and creating it if not, does where one request for both cannot be had.
        """
        self._root, self._is_single_writer = root, is_single_writer

    def location(self, path: str) -> Location:
        return self._root.child(path) if path else self._root

    def url(self, path: str) -> str:
        filesystem, full = self.location(path)
        name = next(iter(_protocols(_fsspec_backend(filesystem))), filesystem.type_name)
        return f"{SCHEMES.get(name, name)}://{full.lstrip('/')}"

    def read(self, path: str) -> bytes:
        filesystem, full = self._as_it_is(path)
        with filesystem.open_input_stream(full) as file:
            return bytes(file.read())

    def size(self, path: str) -> int | None:
        filesystem, full = self._as_it_is(path)
        info = filesystem.get_file_info(full)
        return int(info.size) if info.type is FileType.File else None

    def files(self, directory: str) -> list[StoredFile]:
        filesystem, full = self._as_it_is(directory)
        selector = FileSelector(full, recursive=True, allow_not_found=True)
        cut = len(full.strip("/")) - len(directory)
        return sorted(
            StoredFile(info.path.strip("/")[cut:], info.size)
            for info in filesystem.get_file_info(selector)
            if info.type is FileType.File
        )

    def modified_s(self, path: str) -> float | None:
        filesystem, full = self._as_it_is(path)
        mtime_ns = filesystem.get_file_info(full).mtime_ns
        if mtime_ns is not None:
            return float(mtime_ns / 1e9)
        # That pyarrow knows none of a file in s3fs means nothing: s3fs has another name for it.
        backend = _fsspec_backend(filesystem)
        with contextlib.suppress(AttributeError, NotImplementedError, FileNotFoundError):
            return float(backend.modified(full).timestamp())
        return None

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[Any]:
        filesystem, full = self._with_parent(path)
        with filesystem.open_output_stream(full) as file:
            yield file

    def put_if_absent(self, path: str, data: bytes) -> bool:
        filesystem, full = self._with_parent(path)
        backend = _fsspec_backend(filesystem)
        if CREATE_ONLY_PROTOCOLS.intersection(_protocols(backend)):
            try:
                backend.pipe_file(full, data, mode="create")
            except FileExistsError:
                return False
            return True
        if not self._is_single_writer:
            raise UnsafeStoreError(f"{filesystem.type_name} {UNSAFE}")
        if self.size(path) is not None:
            return False
        with self.create(path) as file:
            file.write(data)
        return True

    def move(self, source: str, target: str) -> bool:
        if self.size(source) is None:
            return False
        filesystem, full = self._with_parent(target)
        try:
            filesystem.move(self.location(source).path, full)
        except FileNotFoundError:  # another writer has moved it meanwhile
            return False
        return True

    def remove(self, path: str) -> None:
        filesystem, full = self._as_it_is(path)
        with contextlib.suppress(FileNotFoundError):
            filesystem.delete_file(full)

    def sync(self, paths: Iterable[str]) -> None:
        """Nothing is to do: what such a store has answered is durable."""

    def _as_it_is(self, path: str) -> Location:
        """Return where a file is, for a look that sees what others have written.

        File systems of fsspec remember listings: what is in none of them is not there, they say.
        """
        location = self.location(path)
        backend = _fsspec_backend(location.filesystem)
        if backend is not None:
            backend.invalidate_cache()
        return location

    def _with_parent(self, path: str) -> Location:
        location = self.location(path)
        if location.filesystem.type_name not in ("abfs", "gcs", "s3"):  # these have no directories
            location.filesystem.create_dir(location.path.rpartition("/")[0], recursive=True)
        return location


def locate_lake(path: str | Path, filesystem: Any = None) -> Location:
    """Return where a path leads, as `locate` does.

    Of an object store that fsspec can create a file in only where there is none, fsspec's file
    system is taken, if it is installed: pyarrow's own cannot.

    Raises:
        OptionError: nobody knows the URL's scheme.
    """
    text = os.fspath(path)
    if filesystem is None and text.partition("://")[0] in CREATE_ONLY_PROTOCOLS:
        with contextlib.suppress(ImportError):
            from fsspec.core import url_to_fs

            filesystem, text = url_to_fs(text)
    return locate(text, filesystem)


def check_writable(location: Location) -> None:
    """Make the directory of a lake that is one of this machine's.

    Raises:
        LakeError: it cannot be made, or nothing can be written there.
    """
    store = open_store(location)
    if not isinstance(store, LocalStore):
        return  # what may be done in an object store shows when it is done
    try:
        _make_directory(store.root)
    except OSError as error:
        raise LakeError(f"cannot make the lake {store.root}: {error.strerror}") from error
    if not os.access(store.root, os.W_OK | os.X_OK):
        raise LakeError(f"cannot write to the lake {store.root}")


def open_store(location: Location, *, is_single_writer: bool = False) -> Store:
    """Return the store at a location."""
    filesystem, path = location
    while isinstance(filesystem, SubTreeFileSystem):
        filesystem, path = filesystem.base_fs, f"{filesystem.base_path}{path.lstrip('/')}"
    if isinstance(filesystem, LocalFileSystem) or "file" in _protocols(_fsspec_backend(filesystem)):
        return LocalStore(Path(path), is_single_writer=is_single_writer)
    return ArrowStore(Location(filesystem, path), is_single_writer=is_single_writer)


def _fsspec_backend(filesystem: Any) -> Any:
    """Return the file system of fsspec behind one of pyarrow's; None if there is none."""
    return getattr(getattr(filesystem, "handler", None), "fs", None)


def _protocols(backend: Any) -> tuple[str, ...]:
    protocol = getattr(backend, "protocol", ())
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _make_directory(path: Path) -> None:
    """Make a directory and those above it, durably."""
    if path.is_dir():
        return
    _make_directory(path.parent)
    path.mkdir(exist_ok=True)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
