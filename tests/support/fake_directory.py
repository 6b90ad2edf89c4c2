"""The fake disk's tree of names: what programs see, and what a power cut leaves of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeAlias

from tests.support.fake_inode import Inode

Node: TypeAlias = "Directory | Inode"


class Directory:
    """Names to nodes: `entries` as programs see them, `durable` as the device has them."""

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: dict[int, EntryChange] = {}
        """Those changes of the tree's that are changes of this directory."""


class Entry(NamedTuple):
    """One name of one directory."""

    directory: Directory
    name: str

    @property
    def key(self) -> tuple[int, str]:
        return id(self.directory), self.name


class EntryChange(NamedTuple):
    """A change of entries that no sync of their directory has covered; atomic also if it is two."""

    removed: Entry | None
    added: Entry | None
    node: Node | None

    @property
    def keys(self) -> set[tuple[int, str]]:
        return {entry.key for entry in (self.removed, self.added) if entry is not None}

    @property
    def directories(self) -> list[Directory]:
        """The directories that it changes: two if something moves from one to the other."""
        of = [entry.directory for entry in (self.removed, self.added) if entry is not None]
        return of[:1] if len(of) == 2 and of[0] is of[1] else of


class Tree:
    """All directories, with the changes to their entries that are not durable yet, in order."""

    def __init__(self) -> None:
        self.root = Directory()
        self.pending: dict[int, EntryChange] = {}
        """By number, oldest first."""
        self._changes = 0

    def find(self, path: Path) -> Node | None:
        node: Node = self.root
        for name in str(path).split("/"):
            if not name or name == ".":
                continue
            if not isinstance(node, Directory) or name not in node.entries:
                return None
            node = node.entries[name]
        return node

    def directory(self, path: Path) -> Directory:
        """Return a directory, or raise the OSError a file system would."""
        node = self.find(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if not isinstance(node, Directory):
            raise os_error(errno.ENOTDIR, path)
        return node

    def file(self, path: Path) -> Inode:
        """Return a file, or raise the OSError a file system would."""
        node = self.find(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        if not isinstance(node, Inode):
            raise os_error(errno.EISDIR, path)
        return node

    def add(self, path: Path, node: Node) -> None:
        self._change(EntryChange(None, self._entry(path), node))

    def remove(self, path: Path) -> None:
        self._change(EntryChange(self._entry(path), None, None))

    def rename(self, old: Path, new: Path) -> None:
        self._change(EntryChange(self._entry(old), self._entry(new), self.find(old)))

    def sync(self, directory: Directory) -> None:
        """Make a directory's changes durable, with the earlier ones that they build on."""
        moves = any(len(change.directories) == 2 for change in directory.pending.values())
        for number in self._needed_by(directory) if moves else list(directory.pending):
            change = self.pending.pop(number)
            for changed in change.directories:
                del changed.pending[number]
            _apply_durably(change)

    def _needed_by(self, directory: Directory) -> list[int]:
        """Return the changes of a directory, and all that these build on in other directories."""
        needed: list[int] = []
        names: set[tuple[int, str]] = set()
        for number, change in reversed(self.pending.items()):
            if number in directory.pending or change.keys & names:
                needed.append(number)
                names |= change.keys
        return needed[::-1]

    def cut_power(self, random: Random | None) -> None:
        """Lose some changes, all without `random`; after a lost one no later of that name stays."""
        lost_names: set[tuple[int, str]] = set()
        for change in self.pending.values():
            if random is None or change.keys & lost_names or random.random() < 0.5:
                lost_names |= change.keys
            else:
                _apply_durably(change)
        self.pending.clear()
        for node in list(self.nodes(durable=True)):
            if isinstance(node, Directory):
                node.entries = dict(node.durable)
                node.pending.clear()

    def nodes(self, *, durable: bool = False) -> Iterator[Node]:
        """Yield everything below the root, and the root."""
        waiting: list[Node] = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            if isinstance(node, Directory):
                waiting.extend((node.durable if durable else node.entries).values())

    def _entry(self, path: Path) -> Entry:
        return Entry(self.directory(path.parent), path.name)

    def _change(self, change: EntryChange) -> None:
        if change.removed is not None:
            del change.removed.directory.entries[change.removed.name]
        if change.added is not None and change.node is not None:
            change.added.directory.entries[change.added.name] = change.node
        self._changes += 1
        for directory in change.directories:
            directory.pending[self._changes] = change
        self.pending[self._changes] = change


def os_error(number: int, path: Path | None = None) -> OSError:
    """Return the OSError (FileNotFoundError, ...) that the system would raise."""
    if path is None:
        return OSError(number, os.strerror(number))
    return OSError(number, os.strerror(number), str(path))


def _apply_durably(change: EntryChange) -> None:
    if change.removed is not None:
        change.removed.directory.durable.pop(change.removed.name, None)
    if change.added is not None and change.node is not None:
        change.added.directory.durable[change.added.name] = change.node
