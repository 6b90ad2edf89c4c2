"""`tidelog dump`: what is in one file of a partition."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from tidelog.cli import output
from tidelog.cli.errors import ExitCode, explained
from tidelog.cli.message_format import text_field
from tidelog.cli.times import time_text

if TYPE_CHECKING:
    from broker.offline import Dumped, DumpedBatch, DumpedRecord

Fields: TypeAlias = dict[str, Any]

VALUE_CHARS_MAX: Final = 200


FileArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A .log, .index, .timeindex, .snapshot or .txnindex file.",
        show_default=False,
    ),
]

RecordsOption: TypeAlias = Annotated[
    bool, typer.Option("--records", help="Of a .log file, also show every record.")
]

FromOffsetOption: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, metavar="OFFSET", help="Of a .log file, begin at this offset."),
]

MaxOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--max", min=0, metavar="N", help="Stop after so many batches or index entries."),
]

JsonLinesOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Write an object for each entry, one a line.")
]


def dump(
    file: FileArgument,
    *,
    records: RecordsOption = False,
    from_offset: FromOffsetOption = None,
    count_max: MaxOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Show what is in one file of a partition: batches, records, index entries.

    Every batch is checked, and what is wrong with it said. The file may belong to a running
    broker: its newest batch may then seem cut, and its newest index entries are not in the file
    yet. Exit code 0: nothing wrong; 1: problems were shown; 2: the file could not be read.

    Examples:
      tidelog dump tidelog-data/logs-0/00000000000000000000.log --max 5
      tidelog dump tidelog-data/logs-0/00000000000000000000.log --records --json
      tidelog dump tidelog-data/logs-0/00000000000000000000.timeindex
    """
    from broker.offline import dump_segment

    write = output.write_json if as_json else _write_text
    has_problems, is_empty = False, True
    try:
        dumped = dump_segment(file, records=records, from_offset=from_offset)
        for value in _first(dumped, count_max):
            is_empty = False
            kind, fields = _described(value)
            has_problems = has_problems or bool(fields.get("problem"))
            write({"type": kind, **fields})
    except Exception as error:
        known = explained(error)
        if known is None or isinstance(error, BrokenPipeError):
            raise
        output.say(known[0])
        raise typer.Exit(ExitCode.USAGE) from None
    if is_empty and count_max != 0 and not as_json:
        output.say(f"{file.name} has no entries")
    if has_problems:
        raise typer.Exit(ExitCode.FAILED)


def _first(dumped: Iterator[Dumped], count_max: int | None) -> Iterator[Dumped]:
    """Yield the first so many entries; the records of a batch are part of it."""
    from broker.offline import DumpedProblem, DumpedRecord

    counter = itertools.count(1)
    for value in dumped:
        is_part = isinstance(value, DumpedRecord | DumpedProblem)
        if not is_part and count_max is not None and next(counter) > count_max:
            return
        yield value


def _described(value: Dumped) -> tuple[str, Fields]:
    """Return the kind of an entry and its fields, by name."""
    from broker import offline

    if isinstance(value, offline.DumpedBatch):
        return "batch", _batch(value)
    if isinstance(value, offline.DumpedRecord):
        return "record", _record(value)
    if isinstance(value, offline.DumpedProblem):
        return "problem", {"problem": value.text}
    kinds: dict[type, str] = {
        offline.OffsetIndexEntry: "index_entry",
        offline.TimeIndexEntry: "time_index_entry",
        offline.ProducerEntry: "producer",
        offline.AbortedTransaction: "aborted_transaction",
    }
    return kinds[type(value)], value._asdict()


def _batch(batch: DumpedBatch) -> Fields:
    return {name: getattr(batch, name) for name in batch.__slots__}


def _record(dumped: DumpedRecord) -> Fields:
    record = dumped.record
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        **text_field("key", record.key),
        **text_field("value", record.value),
        "headers": [
            {"name": name.encode("utf-8", "replace").decode(), **text_field("value", value)}
            for name, value in record.headers
        ],
    }


# --- for people -------------------------------------------------------------------------------


def _write_text(fields: Fields) -> None:
    kind = fields["type"]
    if kind == "batch":
        output.write_line(_batch_text(fields))
    elif kind == "record":
        output.write_line(_record_text(fields))
    elif kind != "problem":
        output.write_line(_entry_text(fields))
    if fields.get("problem"):
        output.write_line(f"  PROBLEM: {fields['problem']}")


def _entry_text(entry: Fields) -> str:
    shown = []
    for name, value in list(entry.items())[1:]:
        when = time_text(value) if "timestamp" in name else None
        shown.append(f"{name.replace('_', ' ')} {value}" + (f" ({when})" if when else ""))
    return ", ".join(shown)


def _batch_text(batch: Fields) -> str:
    text = f"batch at {batch['position']}, {batch['size_bytes']} bytes"
    if batch["magic"] is None:
        return text
    count = "?" if batch["record_count"] is None else batch["record_count"]
    text += f": offsets {batch['base_offset']} to {batch['last_offset']}, records {count}"
    text += f", magic {batch['magic']}, {batch['codec']}, {batch['timestamp_type']}"
    text += f" {time_text(batch['max_timestamp']) or batch['max_timestamp']}"
    text += f", crc {batch['crc']:#010x}"
    if batch["leader_epoch"] is not None:
        text += f", leader epoch {batch['leader_epoch']}"
    if (batch["producer_id"] or -1) >= 0:
        text += f", producer {batch['producer_id']} epoch {batch['producer_epoch']}"
        text += f" from sequence {batch['base_sequence']}"
    flags = [name[3:] for name in ("is_transactional", "is_control") if batch[name]]
    return ", ".join([text, *flags])


def _record_text(record: Fields) -> str:
    when = time_text(record["timestamp"]) or record["timestamp"]
    text = f"  offset {record['offset']}  {when}"
    for name in ("key", "value"):
        text += f"  {name} {_shown(record, name)}"
    for header in record["headers"]:
        text += f"  header {header['name']!r} {_shown(header, 'value')}"
    return text


def _shown(fields: Fields, name: str) -> str:
    value = fields[name]
    if value is None:
        return "null"
    label = f"{fields[f'{name}_encoding']}:" if f"{name}_encoding" in fields else ""
    if len(value) > VALUE_CHARS_MAX:
        return f"{label}{value[:VALUE_CHARS_MAX]!r}... ({len(value)} characters)"
    return f"{label}{value!r}"
