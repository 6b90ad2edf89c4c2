"""Entry: one commit of a lake, a JSON file in its log; and the files and gaps that it names.

    <lake>/<topic>/_log/00000000000000000012.json           the commit with sequence 12
    <lake>/<topic>/_staged/<writer>/<any name>.parquet      written, not committed
    <lake>/<topic>/data/partition=3/<start20>-<end20>.parquet   committed: offsets start to end - 1

The files and gaps of a partition follow one another without a hole: each begins where the one
before it ends. A range in which a topic has no records (its compaction took them) is a gap too.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tidelog.lake.errors import LakeDamagedError

__all__ = [
    "DATA",
    "LOG",
    "STAGED",
    "Change",
    "DataFile",
    "Entry",
    "Gap",
    "decode_entry",
    "encode",
    "entry_path",
]

DATA: Final = "data"
LOG: Final = "_log"
STAGED: Final = "_staged"
"""Like `_log` it begins with an underscore: readers of a directory take it for no data."""
FORMAT: Final = 1


class DataFile(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file: the records of one partition from `start_offset` up to `end_offset`."""

    partition: int
    start_offset: int
    end_offset: int
    """The one after the last; as the first one it is part of the name."""
    rows: int
    size_bytes: int
    sha256: str
    min_timestamp: int
    """Of a record, in microseconds since 1970."""
    max_timestamp: int
    staged: str
    """Where it lies until the commit is there, relative to the topic's directory."""

    @property
    def path(self) -> str:
        """Where it lies from then on, relative to the topic's directory."""
        name = f"{self.start_offset:020}-{self.end_offset:020}.parquet"
        return f"{DATA}/partition={self.partition}/{name}"

    def covers(self, path: str) -> bool:
        """Return whether the file at a path of the lake begins in this one's range."""
        directory, _, name = path.rpartition("/")
        start_offset = int(name.partition("-")[0])
        return (
            self.path.rpartition("/")[0] == directory
            and self.start_offset <= start_offset < self.end_offset
        )


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of a partition of which the lake has no records, and never will."""

    partition: int
    start_offset: int
    end_offset: int
    reason: Literal["empty", "lost"]
    """empty: the topic had no records there; lost: they were deleted before they were read."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer wants to commit."""

    id: str
    """The writer's own: a change whose id is in the log is there, and is not done again."""
    add: tuple[DataFile, ...] = ()
    gaps: tuple[Gap, ...] = ()
    remove: tuple[str, ...] = ()
    """Paths of files whose records are in the added ones: a compaction."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A change that is committed."""

    sequence: int
    topic: str
    committed_ms: int
    """Milliseconds since 1970, by the writer's clock: for people."""
    change: Change
    format: int = FORMAT


def entry_path(sequence: int) -> str:
    """Return the path of a commit, relative to the topic's directory."""
    return f"{LOG}/{sequence:020}.json"


def encode(value: msgspec.Struct) -> bytes:
    """Return a struct of this module as JSON."""
    return msgspec.json.encode(value)


def decode_entry(data: bytes, path: str) -> Entry:
    """Return the entry of a file of the log. LakeDamagedError if it is none."""
    try:
        entry = msgspec.json.decode(data, type=Entry)
    except msgspec.DecodeError as error:
        raise LakeDamagedError(f"{path} is no commit: {error}") from error
    if entry.format != FORMAT:
        raise LakeDamagedError(f"{path} has format {entry.format}; this version reads {FORMAT}")
    return entry
