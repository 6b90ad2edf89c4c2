"""Reader: records of segments as record batches of Arrow, from splits or from paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tidelog.segments.boundaries import Boundary
from tidelog.segments.decoding import Aim, decode_sections
from tidelog.segments.errors import OptionError
from tidelog.segments.file_window import FileWindow
from tidelog.segments.location import Location, locate, opened
from tidelog.segments.log_files import SegmentFile, list_partitions, list_segments
from tidelog.segments.log_scan import scan
from tidelog.segments.plan import Split, bounds, confirmed, offset_for_time, plan
from tidelog.segments.read_options import ReadOptions, schema
from tidelog.segments.transactions import Transactions

__all__ = [
    "ReadOptions",
    "Selection",
    "read",
    "read_split",
    "read_table",
    "reader",
    "schema",
    "select",
]


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Selection(NamedTuple):
    """What is to be read of what is under a path."""

    location: Location
    splits: tuple[Split, ...]
    options: ReadOptions

    def schema(self) -> pa.Schema:
        """Return that of the record batches."""
        return schema(self.options)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records, split by split. Errors as `read_split`."""
        for split in self.splits:
            yield from read_split(self.location, split, self.options)


def read_split(location: Location, split: Split, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split, in the order of offsets.

    Raises:
        DamagedError: there is damage, and `options.on_corrupt` is "fail".
        DataLossError: the file is gone.
    """
    aim = Aim(
        split.topic, split.partition, split.path, options, split.start_offset, split.end_offset
    )
    with (
        opened(location, split.path, split.start_offset, split.end_offset) as file,
        ExitStack() as stack,
    ):
        split = confirmed(file, split)
        if options.isolation == "read_committed":
            start = Boundary(split.start_position, split.first_offset)
            following = Transactions(location, _from(location, split), start)
            stack.callback(following.close)
            aim = aim._replace(is_aborted=following.is_aborted)
        window = FileWindow(file, split.start_position, split.end_position, options.chunk_bytes)
        sections = scan(
            window, end_position=split.end_position, first_offset=split.first_offset,
            end_offset=split.end_offset, limit_offset=split.limit_offset,
            check_crc=options.check_crc,
        )  # fmt: skip
        yield from decode_sections(sections, aim)


def _from(location: Location, split: Split) -> list[SegmentFile]:
    """Return the segment of a split and those behind it."""
    directory = Location(location.filesystem, split.path.rpartition("/")[0])
    return [each for each in list_segments(directory) if each.base_offset >= split.base_offset]


def select(
    path: str | Path,
    *,
    topics: Iterable[str] | None = None,
    partitions: Iterable[int] | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
    start_timestamp: datetime | int | None = None,
    end_timestamp: datetime | int | None = None,
    filesystem: Any = None,
    **options: Any,
) -> Selection:
    """Return what `read` reads with these arguments."""
    options["start_timestamp_ms"] = _milliseconds("start_timestamp", start_timestamp)
    options["end_timestamp_ms"] = _milliseconds("end_timestamp", end_timestamp)
    made = _options(options)
    location = locate(path, filesystem)
    wanted = None if partitions is None else frozenset(partitions)
    splits: list[Split] = []
    for files in list_partitions(location, topics):
        if wanted is not None and files.partition not in wanted:
            continue
        start, end = bounds(location, files, isolation=made.isolation)
        start = start if start_offset is None else max(start, start_offset)
        end = end if end_offset is None else min(end, end_offset)
        if made.start_timestamp_ms is not None:
            first = offset_for_time(location, files, made.start_timestamp_ms)
            start = end if first is None else max(start, first)
        splits += plan(location, files, start, end)
    return Selection(location, tuple(splits), made)


def read(path: str | Path, **arguments: Any) -> Iterator[pa.RecordBatch]:
    """Yield the records under a path: partition after partition, in the order of offsets.

    Args:
        path: A data directory, a partition's directory or one `.log` file; a path of this machine
            or a URL.
        topics, partitions: These only.
        start_offset, end_offset: From the one to below the other, of each partition; what is not
            there is no error.
        start_timestamp, end_timestamp: Records from the one to before the other; a datetime with a
            zone, or milliseconds.
        filesystem: Of pyarrow or fsspec, to which the path belongs.
        columns, on_corrupt, and others: See `ReadOptions`.

    Raises:
        SegmentError: there is nothing at the path, or it cannot be read; see its subclasses.
    """
    return select(path, **arguments).batches()


def read_table(path: str | Path, **arguments: Any) -> pa.Table:
    """Return all that `read` yields as one table."""
    return reader(path, **arguments).read_all()


def reader(path: str | Path, **arguments: Any) -> pa.RecordBatchReader:
    """Return what `read` yields as a stream of Arrow, for whatever takes such: no record is read
    before it is asked for."""
    selection = select(path, **arguments)
    return pa.RecordBatchReader.from_batches(selection.schema(), selection.batches())


def _options(values: dict[str, Any]) -> ReadOptions:
    for name in values:
        if name not in ReadOptions.__struct_fields__:
            known = ", ".join(ReadOptions.__struct_fields__)
            raise OptionError(f"there is no option {name!r}; there are {known}")
    if "columns" in values:
        values["columns"] = tuple(values["columns"])
    return ReadOptions(**values)


def _milliseconds(name: str, moment: datetime | int | None) -> int | None:
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        raise OptionError(f"{name} has no time zone; give it one, such as datetime.UTC")
    return -((EPOCH - moment) // timedelta(milliseconds=1))  # rounded up: both ends are "from"
