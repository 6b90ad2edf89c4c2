"""ReadOptions: what is read of segments, and what becomes of what is wrong in them."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
import pyarrow as pa

from tidelog.segments.columns import COLUMNS, arrow_schema
from tidelog.segments.errors import OptionError

__all__ = ["CORRUPT", "ISOLATIONS", "ON_CORRUPT", "Isolation", "OnCorrupt", "ReadOptions", "schema"]

OnCorrupt = Literal["fail", "skip", "tag"]
Isolation = Literal["read_uncommitted", "read_committed"]

ON_CORRUPT: Final = ("fail", "skip", "tag")
ISOLATIONS: Final = ("read_uncommitted", "read_committed")
CORRUPT: Final = "corrupt"
"""The column that `on_corrupt="tag"` adds: what is wrong there; null in the row of a record."""
CHUNK_BYTES: Final = 4 << 20


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader is to do. OptionError for a value that is not allowed."""

    columns: tuple[str, ...] = COLUMNS
    """In this order; only these are made."""
    check_crc: bool = True
    """Check the CRC of every batch. Without it damage is found where bytes cannot be decoded."""
    on_corrupt: OnCorrupt = "fail"
    """At damage: raise `DamagedError`; go on behind it; or also give a row of it, with the first
    offset that it hides and the reason in a column `corrupt`."""
    isolation: Isolation = "read_uncommitted"
    """`read_committed` leaves out the records of aborted transactions."""
    include_control: bool = False
    """Also give the records that end transactions, whose keys and values are the broker's."""
    chunk_bytes: int = CHUNK_BYTES
    """Read at once; a record batch of Arrow holds the records of about so many bytes."""
    start_timestamp_ms: int | None = None
    """Leave out records before it."""
    end_timestamp_ms: int | None = None
    """Leave out records at and after it."""

    def __post_init__(self) -> None:
        arrow_schema(self.columns)
        if self.on_corrupt not in ON_CORRUPT:
            raise OptionError(f"on_corrupt is {self.on_corrupt!r}; it may be fail, skip or tag")
        if self.isolation not in ISOLATIONS:
            raise OptionError(
                f"isolation is {self.isolation!r}; it may be read_uncommitted or read_committed"
            )
        if self.chunk_bytes < 1:
            raise OptionError(f"chunk_bytes is {self.chunk_bytes}; it has to be 1 at least")


def schema(options: ReadOptions) -> pa.Schema:
    """Return the schema of what is read with these options."""
    columns = arrow_schema(options.columns)
    if options.on_corrupt == "tag":
        columns = columns.append(pa.field(CORRUPT, pa.string()))
    return columns
