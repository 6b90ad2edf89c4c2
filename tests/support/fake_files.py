"""Fake files: one made on a fake disk, and what is on it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from tests.support.fake_disk import FakeDisk, FakeFile

A, B, C = Path("/a"), Path("/b"), Path("/c")
RANDOMS = st.randoms(use_true_random=False)
SEEDS = range(200)


def new_file(disk: FakeDisk, path: Path, data: bytes = b"", *, is_durable: bool = True) -> FakeFile:
    file = disk.open(path, create=True)
    file.write([data], 0)
    if is_durable:
        file.sync()
        disk.sync_directory(path.parent)
    return file


def contents(disk: FakeDisk) -> dict[str, bytes]:
    return {name: disk.read_file(Path("/", name)) for name in disk.list_directory(Path("/"))}
