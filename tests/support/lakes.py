"""Lakes for tests: records to put in, stores that die or wait, and what a plain reader finds."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from tidelog.lake.entry import Change, DataFile, Gap
from tidelog.lake.parquet_files import SCHEMA, ParquetOptions, write_range
from tidelog.lake.store import LocalStore, Store

TOPIC = "web-logs"


def batch_of(partition: int, offsets: Iterable[int]) -> pa.RecordBatch:
    """Return a record for each offset; its value says which it is."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": None if offset % 3 else b"key",
                "value": b"%d-%d" % (partition, offset),
                "topic": TOPIC,
                "partition": partition,
                "offset": offset,
                "timestamp": offset * 1_000_000,
                "timestampType": 0,
                "headers": [{"key": "n", "value": b"%d" % offset}] if offset % 2 else [],
            }
            for offset in offsets
        ],
        schema=SCHEMA,
    )


def stage(
    store: Store,
    partition: int,
    start: int,
    end: int,
    *,
    writer: str = "writer",
    options: ParquetOptions = ParquetOptions(),  # noqa: B008 - it is frozen
) -> list[DataFile | Gap]:
    """Stage the records of a range, each offset having one."""
    return list(
        write_range(
            store,
            writer,
            [batch_of(partition, range(start, end))],
            partition=partition,
            start_offset=start,
            end_offset=end,
            options=options,
        )
    )


def change_of(id: str, pieces: Sequence[DataFile | Gap], remove: Sequence[str] = ()) -> Change:
    """Return a change that adds these."""
    return Change(
        id=id,
        add=tuple(piece for piece in pieces if isinstance(piece, DataFile)),
        gaps=tuple(piece for piece in pieces if isinstance(piece, Gap)),
        remove=tuple(remove),
    )


def listed(topic_directory: Path) -> list[tuple[int, int]]:
    """Return (partition, offset) of each record of a directory, read as anybody would read it.

    Every value is compared with what its place says; a file that cannot be read is an error.
    """
    data = topic_directory / "data"
    if not data.is_dir():
        return []
    table = ds.dataset(data, SCHEMA, "parquet", partitioning="hive").to_table()
    rows = table.select(["partition", "offset", "value"]).to_pylist()
    assert all(row["value"] == b"%d-%d" % (row["partition"], row["offset"]) for row in rows)
    return sorted((row["partition"], row["offset"]) for row in rows)


class ProcessDiedError(Exception):
    """The process that a store stood for is no more."""


class HookedStore(LocalStore):
    """Calls `before(what)` before each change of the disk, and in the middle of writing a file."""

    def __init__(self, root: Path, before: Callable[[str], None]) -> None:
        super().__init__(root)
        self._before = before

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[Any]:
        self._before(f"create {path}")
        with super().create(path) as file:
            yield _HookedFile(file, lambda: self._before(f"write {path}"))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._before(f"put {path}")
        is_put = super().put_if_absent(path, data)
        self._before(f"after put {path}")
        return is_put

    def move(self, source: str, target: str) -> bool:
        self._before(f"move to {target}")
        return super().move(source, target)

    def remove(self, path: str) -> None:
        self._before(f"remove {path}")
        super().remove(path)


class _HookedFile:
    """Calls the hook when some bytes of the file are on the disk and some are not."""

    def __init__(self, file: Any, between: Callable[[], None]) -> None:
        self._file, self._between = file, between
        self._written_bytes = 0

    def write(self, data: Any) -> None:
        self._file.write(data)
        is_first = self._written_bytes == 0
        self._written_bytes += len(data)
        if is_first:
            self._file.flush()
            self._between()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def dying_store(root: Path, steps: int) -> HookedStore:
    """Return a store whose process dies before its `steps`-th change, and stays dead."""
    left = [steps]

    def before(what: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise ProcessDiedError(what)

    return HookedStore(root, before)


class Turns:
    """Writers that run one at a time, each to its next change of the disk, in a given order."""

    def __init__(self, writers: Sequence[Callable[[Callable[[str], None]], None]]) -> None:
        """Args:
        writers: Each is given the hook for its `HookedStore`.
        """
        self._errors: list[BaseException] = []
        self._may_run = [threading.Semaphore(0) for _ in writers]
        self._has_stopped = threading.Semaphore(0)
        self._threads = [
            threading.Thread(target=self._run, args=(number, writer), daemon=True)
            for number, writer in enumerate(writers)
        ]
        for thread in self._threads:
            thread.start()
        self._is_done = [False] * len(writers)

    def step(self, number: int) -> bool:
        """Let a writer do one change; return False if it had come to its end before."""
        if self._is_done[number]:
            return False
        self._may_run[number].release()
        self._has_stopped.acquire()
        if self._errors:
            raise self._errors[0]
        return True

    def finish(self) -> None:
        """Let each writer go on to its end."""
        for number in range(len(self._threads)):
            while self.step(number):
                pass

    def _run(self, number: int, writer: Callable[[Callable[[str], None]], None]) -> None:
        def wait(_: str) -> None:
            self._has_stopped.release()
            self._may_run[number].acquire()

        self._may_run[number].acquire()
        try:
            writer(wait)
        except BaseException as error:
            self._errors.append(error)
        self._is_done[number] = True
        self._has_stopped.release()
