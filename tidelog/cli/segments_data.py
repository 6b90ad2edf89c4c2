"""`tidelog segments head | count | to-parquet | to-arrow`: records of log files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli import output
from tidelog.cli.errors import CommandError, ExitCode
from tidelog.cli.options import JsonOption, TopicsOption
from tidelog.cli.record_rows import row_fields, row_text
from tidelog.cli.segments_options import (
    ColumnsOption,
    Compression,
    CompressionOption,
    ControlOption,
    CrcOption,
    EndOption,
    FileArgument,
    ForceOption,
    Isolation,
    IsolationOption,
    JsonLinesOption,
    MaxOption,
    OnCorrupt,
    OnCorruptOption,
    PartitionsOption,
    PathArgument,
    ProgressOption,
    StartOption,
    StreamArgument,
    Wanted,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.segments.reader import Selection

GROUP_BYTES: Final = 64 << 20
"""A row group of Parquet takes about so much, before it is compressed."""
STREAM: Final = "-"


def to_parquet(
    path: PathArgument,
    file: FileArgument,
    *,
    topic: TopicsOption = None,
    partition: PartitionsOption = None,
    start: StartOption = None,
    end: EndOption = None,
    columns: ColumnsOption = None,
    compression: CompressionOption = Compression.ZSTD,
    on_corrupt: OnCorruptOption = OnCorrupt.FAIL,
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED,
    check_crc: CrcOption = True,
    control: ControlOption = False,
    force: ForceOption = False,
    progress: ProgressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the records of log files to one Parquet file.

    No broker is asked; the files may belong to a running one, and are read up to what it has
    committed. Partitions follow each other, their records in the order of offsets. The file is
    there only when it is whole. Needs: pip install 'tidelog[segments]'.

    Examples:
      tidelog segments to-parquet ./tidelog-data logs.parquet --topic logs
      tidelog segments to-parquet ./tidelog-data day.parquet --from 2026-11-21 --to 2026-11-22
    """
    wanted = Wanted(
        topic, partition, start, end, columns, on_corrupt, isolation, check_crc, control
    )

    def write(target: Any, selection: Selection, batches: Iterator[pa.RecordBatch]) -> None:
        import pyarrow.parquet as pq

        schema = selection.schema()
        codec = None if compression is Compression.NONE else compression.value
        with pq.ParquetWriter(target, schema, compression=codec) as writer:
            for group in _grouped(batches):
                writer.write_table(group, row_group_size=group.num_rows)

    _write_file(path, wanted, file, write, force=force, progress=progress, as_json=as_json)


def to_arrow(
    path: PathArgument,
    file: StreamArgument,
    *,
    topic: TopicsOption = None,
    partition: PartitionsOption = None,
    start: StartOption = None,
    end: EndOption = None,
    columns: ColumnsOption = None,
    on_corrupt: OnCorruptOption = OnCorrupt.FAIL,
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED,
    check_crc: CrcOption = True,
    control: ControlOption = False,
    force: ForceOption = False,
    progress: ProgressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the records of log files to one file of Arrow's IPC format, or as a stream of it.

    As `to-parquet`, but larger, faster to make, and readable without decoding: Polars, DuckDB and
    pandas map it into memory. Needs: pip install 'tidelog[segments]'.

    Examples:
      tidelog segments to-arrow ./tidelog-data logs.arrow --topic logs --columns offset,value
      tidelog segments to-arrow ./tidelog-data - --topic logs | ./my-reader-of-arrow-streams
    """
    wanted = Wanted(
        topic, partition, start, end, columns, on_corrupt, isolation, check_crc, control
    )

    def write(target: Any, selection: Selection, batches: Iterator[pa.RecordBatch]) -> None:
        import pyarrow as pa

        make = pa.ipc.new_stream if file == STREAM else pa.ipc.new_file
        with make(target, selection.schema()) as writer:
            for batch in batches:
                writer.write_batch(batch)

    if file == STREAM:
        if as_json:
            raise CommandError("--json and a stream both want standard output", ExitCode.USAGE)
        selection = wanted.select(path)
        write(sys.stdout.buffer, selection, selection.batches())
    else:
        _write_file(
            path, wanted, Path(file), write, force=force, progress=progress, as_json=as_json
        )


def head(
    path: PathArgument,
    *,
    count_max: MaxOption = 10,
    topic: TopicsOption = None,
    partition: PartitionsOption = None,
    start: StartOption = None,
    end: EndOption = None,
    columns: ColumnsOption = None,
    on_corrupt: OnCorruptOption = OnCorrupt.FAIL,
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED,
    check_crc: CrcOption = True,
    control: ControlOption = False,
    as_json: JsonLinesOption = False,
) -> None:
    """Show the first records of log files.

    With --json a key or value that is not UTF-8 is written as base64, beside a field such as
    "value_encoding" that says so. Needs: pip install 'tidelog[segments]'.

    Examples:
      tidelog segments head ./tidelog-data --topic logs -n 3
      tidelog segments head ./tidelog-data/logs-0 --from 2026-11-21T08:00:00+00:00 --json
    """
    wanted = Wanted(
        topic, partition, start, end, columns, on_corrupt, isolation, check_crc, control
    )
    selection = wanted.select(path)
    left = count_max
    for batch in selection.batches() if left else ():
        for fields in row_fields(batch.slice(0, left)):
            output.write_line(
                json.dumps(fields, ensure_ascii=False) if as_json else row_text(fields)
            )
        left -= min(left, batch.num_rows)
        if not left:
            return


def count(
    path: PathArgument,
    *,
    topic: TopicsOption = None,
    partition: PartitionsOption = None,
    start: StartOption = None,
    end: EndOption = None,
    on_corrupt: OnCorruptOption = OnCorrupt.FAIL,
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED,
    check_crc: CrcOption = True,
    control: ControlOption = False,
    progress: ProgressOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count the records of log files, by partition.

    Every record is decoded, so that a count is also a check. With --on-corrupt tag damaged
    stretches are counted beside the records. Needs: pip install 'tidelog[segments]'.

    Examples:
      tidelog segments count ./tidelog-data
      tidelog segments count ./tidelog-data --topic logs --from 2026-11-21 --to 2026-11-22 --json
    """
    wanted = Wanted(topic, partition, start, end, None, on_corrupt, isolation, check_crc, control)
    selection = wanted.select(path, ("topic", "partition", "offset"))
    counts: dict[tuple[str, int], dict[str, Any]] = {}
    for split in selection.splits:
        counts.setdefault(
            (split.topic, split.partition),
            {
                "topic": split.topic, "partition": split.partition, "records": 0,
                "first_offset": None, "last_offset": None, "damaged": 0,
            },
        )  # fmt: skip
    for batch in _with_progress(selection, progress):
        _add(counts, batch)
    if as_json:
        output.write_json(list(counts.values()))
        return
    names = ["topic", "partition", "records", "first_offset", "last_offset"]
    if on_corrupt is OnCorrupt.TAG:
        names.append("damaged")
    output.write_table(
        [name.replace("_", " ") for name in names],
        [[fields[name] for name in names] for fields in counts.values()],
    )


def _add(counts: dict[tuple[str, int], dict[str, Any]], batch: pa.RecordBatch) -> None:
    """Count the rows of a batch, which are all of one partition."""
    if not batch.num_rows:
        return
    fields = counts[batch.column(0)[0].as_py(), batch.column(1)[0].as_py()]
    is_damage = batch.num_columns > 3 and batch.column(3)[0].is_valid
    if is_damage:
        fields["damaged"] += batch.num_rows
        return
    fields["records"] += batch.num_rows
    offsets = batch.column(2)
    if fields["first_offset"] is None:
        fields["first_offset"] = offsets[0].as_py()
    fields["last_offset"] = offsets[-1].as_py()


# --- what is written --------------------------------------------------------------------------


def _with_progress(selection: Selection, is_shown: bool | None) -> Iterator[pa.RecordBatch]:
    """Yield the records with a bar that goes along the files."""
    from tidelog.segments.reader import read_split

    sizes = [split.end_position - split.start_position for split in selection.splits]
    with output.progress_bar("reading", sum(sizes), is_shown=is_shown) as advance:
        for split, size in zip(selection.splits, sizes, strict=True):
            yield from read_split(selection.location, split, selection.options)
            advance(size)


def _write_file(
    path: str,
    wanted: Wanted,
    file: Path,
    write: Callable[[Any, Selection, Iterator[pa.RecordBatch]], None],
    *,
    force: bool,
    progress: bool | None,
    as_json: bool,
) -> None:
    """Write what is wanted to a file that has its name only when it is whole."""
    if file.exists() and not force:
        raise CommandError(f"{file} is there already; --force replaces it", ExitCode.USAGE)
    if not file.absolute().parent.is_dir():
        raise CommandError(f"{file}: there is no directory {file.parent}", ExitCode.USAGE)
    if file.is_dir():
        raise CommandError(f"{file} is a directory: name a file", ExitCode.USAGE)
    selection = wanted.select(path)
    records = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal records
        for batch in _with_progress(selection, progress):
            records += batch.num_rows
            yield batch

    unfinished = file.with_name(f".{file.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as target:
            write(target, selection, counted())
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    size = file.stat().st_size
    if as_json:
        output.write_json({"file": str(file), "records": records, "size_bytes": size})
    else:
        output.write_line(f"{file}: {records:,} records, {output.size_text(size)}")


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield batches as tables of about the size of a row group."""
    import pyarrow as pa

    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        gathered.append(batch)
        size += batch.nbytes
        if size >= GROUP_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)
