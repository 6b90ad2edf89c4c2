"""ArchiveOptions: what an archive takes from where, and how it writes it."""

from __future__ import annotations

from typing import Literal

import msgspec

from tidelog.segments.errors import OptionError
from tidelog.segments.read_options import Isolation, OnCorrupt

__all__ = ["ArchiveOptions", "Table"]

Table = Literal["delta", "iceberg"]


class ArchiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is archived, and how. OptionError for what does not go together."""

    lake: str
    """Where the lake is or is to be; a path that is the same for driver and executors, or a URL."""
    path: str | None = None
    """A data directory to archive; or"""
    broker: str | None = None
    """a broker. Neither: the lake is compacted only."""
    topics: tuple[str, ...] | None = None
    """None: all that are for users."""
    interval_s: float | None = None
    """Go on for ever, and look for new records so often."""
    compact: bool = False
    """Merge small files of the lake."""
    tables: tuple[Table, ...] = ()
    """Keep tables of these formats over the lake's files."""
    iceberg_catalog: str | None = None
    """Name of a catalog in pyiceberg's configuration; None: a SQLite file in the lake."""
    file_bytes: int = 128 << 20
    """Size of a Parquet file that is large enough."""
    task_bytes: int = 128 << 20
    """Bytes of log for one task."""
    isolation: Isolation = "read_committed"
    """A lake is for good: by default what may yet be aborted waits, and what was is left out."""
    on_corrupt: OnCorrupt = "fail"
    fail_on_data_loss: bool = True
    is_single_writer: bool = False
    """Nobody else writes to the lake: needed where a file system cannot tell two writers apart."""

    def __post_init__(self) -> None:
        if self.path is not None and self.broker is not None:
            raise OptionError("archive from a data directory or from a broker, not from both")
        if self.path is None and self.broker is None and not self.compact:
            raise OptionError("name a data directory or a broker to archive, or ask for compaction")
        if self.on_corrupt == "tag":
            raise OptionError("on_corrupt is 'tag'; of an archive it may be fail or skip")
        for name in ("file_bytes", "task_bytes"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}; it has to be 1 at least")
