"""`tidelog produce`: the lines of a file or of standard input as messages."""

from __future__ import annotations

import enum
import io
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from protocol.errors import TidelogError
from tidelog.cli import output
from tidelog.cli.errors import CommandError, ExitCode, explained
from tidelog.cli.lines import LineTooLongError, iterate_lines
from tidelog.cli.options import DEFAULT_BROKER, BrokerOption, JsonOption, TopicArgument
from tidelog.cli.stop_signals import StoppedError, StopSignals
from tidelog.cli.tally import Tally

if TYPE_CHECKING:
    from tidelog.client import Client, Producer

ESCAPES: Final = {r"\t": "\t", r"\0": "\0"}


class Acks(enum.StrEnum):
    """When the broker answers."""

    ALL = "all"
    WRITTEN = "1"
    NONE = "0"


class Compression(enum.StrEnum):
    """Codecs by name."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


FileArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="FILE", help="The file to read; - is standard input.")
]

PartitionOption: TypeAlias = Annotated[
    int | None,
    typer.Option(min=0, metavar="N", help="The partition; without it by key, or else in turn."),
]

KeySeparatorOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help=r"What stands between key and value of a line, the first time; \t is a tab.",
    ),
]

AcksOption: TypeAlias = Annotated[
    Acks,
    typer.Option(
        help="all: acknowledged when synced to the disk; 1: when written; 0: never, so that "
        "failures go unnoticed."
    ),
]

CompressionOption: TypeAlias = Annotated[
    Compression, typer.Option(help="How batches are compressed.")
]

BatchBytesOption: TypeAlias = Annotated[
    int, typer.Option(min=1, metavar="BYTES", help="Size at which a batch is sent.")
]

LingerOption: TypeAlias = Annotated[
    float,
    typer.Option(min=0, metavar="MS", help="Age at which a batch is sent, however small."),
]

TimeoutOption: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0.001, metavar="SECONDS", help="How long to go on trying before a message fails."
    ),
]

ProgressOption: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--progress/--quiet",
        help="Show a progress bar, or neither bar nor summary. Without either there is a bar "
        "on a terminal, and a summary.",
        show_default=False,
    ),
]


def produce(
    topic: TopicArgument,
    source: FileArgument = "-",
    *,
    partition: PartitionOption = None,
    key_separator: KeySeparatorOption = None,
    acks: AcksOption = Acks.ALL,
    compression: CompressionOption = Compression.NONE,
    batch_bytes: BatchBytesOption = 512 * 1024,
    linger_ms: LingerOption = 5.0,
    timeout: TimeoutOption = 120.0,
    progress: ProgressOption = None,
    broker: BrokerOption = DEFAULT_BROKER,
    as_json: JsonOption = False,
) -> None:
    r"""Send each line of a file, or of standard input, as a message.

    Lines end at \n only: a \r stays in its message. What follows the last newline is a message if
    it is not empty. Messages are sent while input is still coming in, so this can stand at the end
    of a pipe that never ends. Ctrl-C and SIGTERM first send what was read. A line that fails is
    named on standard error, the others go on, and the exit code is 1. A message that is sent again
    after a lost connection may be stored twice.

    Examples:
      tidelog produce logs /var/log/syslog
      tail -F /var/log/syslog | tidelog produce logs --compression zstd
      tidelog produce users --key-separator : < /etc/passwd
    """
    from tidelog.client import Client

    separator = _separator(key_separator)
    settings = {
        "acks": -1 if acks is Acks.ALL else int(acks),
        "compression": _codec(compression),
        "batch_bytes_max": batch_bytes,
        "linger_s": linger_ms / 1000,
        "delivery_timeout_s": timeout,
    }
    started_s = time.monotonic()
    tally = Tally(output.say, _explain)
    with _opened(source) as stream, StopSignals() as signals, Client(broker) as client:
        _check_topic(client, topic, partition)
        client.close()  # the producer has a connection of its own
        with output.progress_bar(topic, _size_bytes(stream), is_shown=progress) as advance:
            read = _reader(stream, signals, advance)
            messages = _messages(iterate_lines(read), separator, tally)
            _send(client.producer(**settings), topic, partition, messages, tally)
    summary = tally.summary(topic, time.monotonic() - started_s)
    _report(summary, as_json=as_json, is_quiet=progress is False)
    raise typer.Exit(signals.requested or (ExitCode.FAILED if tally.failed else ExitCode.DONE))


def _send(
    producer: Producer,
    topic: str,
    partition: int | None,
    messages: Iterator[tuple[int, bytes | None, bytes]],
    tally: Tally,
) -> None:
    """Produce the messages and wait for all answers."""
    try:
        for number, key, value in messages:
            try:
                future = producer.produce(topic, value, key=key, partition=partition)
            except TidelogError as error:
                tally.fail(number, error)
            else:
                tally.watch(number, len(value), future)
        producer.close()
    except StoppedError:  # the rest is given up; the producer's thread ends with the process
        if tally.pending:
            output.say(f"stopped: {output.counted(tally.pending)} not acknowledged")


def _reader(
    stream: IO[bytes], signals: StopSignals, advance: Callable[[int], None]
) -> Callable[[int], bytes]:
    """Return what reads pieces of the stream, up to its end or the first signal."""
    descriptor = _descriptor(stream)

    def read(size: int) -> bytes:
        if descriptor is None:
            piece = stream.read(size)
        elif signals.wait_for_input(descriptor):
            piece = os.read(descriptor, size)
        else:
            piece = b""
        advance(len(piece))
        return piece

    return read


def _messages(
    lines: Iterator[bytes], separator: bytes | None, tally: Tally
) -> Iterator[tuple[int, bytes | None, bytes]]:
    """Yield line number, key and value of every line; one without its separator has failed."""
    try:
        for number, line in enumerate(lines, 1):
            if separator is None:
                yield number, None, line
                continue
            key, found, value = line.partition(separator)
            if found:
                yield number, key, value
            else:
                tally.fail(number, CommandError("the key separator is not in it"))
    except LineTooLongError as error:
        tally.fail(error.line_number, error)


def _check_topic(client: Client, topic: str, partition: int | None) -> None:
    """Reach the broker before anything is read, and refuse a partition that is not there."""
    info = client.topics(topic)[0]
    if partition is not None and not info.error and partition >= len(info.partitions):
        count = len(info.partitions)
        raise CommandError(f"{topic} has the partitions 0 to {count - 1}, but no {partition}")


@contextmanager
def _opened(source: str) -> Iterator[IO[bytes]]:
    if source == "-":
        yield sys.stdin.buffer
        return
    with Path(source).open("rb", buffering=0) as stream:
        yield stream


def _descriptor(stream: IO[bytes]) -> int | None:
    """Return the file descriptor; None of a stream that a test has put in place of one."""
    try:
        return stream.fileno()
    except io.UnsupportedOperation:
        return None


def _size_bytes(stream: IO[bytes]) -> int | None:
    """Return the size of a regular file; None of a pipe or terminal."""
    descriptor = _descriptor(stream)
    if descriptor is None:
        return None
    status = os.fstat(descriptor)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _separator(text: str | None) -> bytes | None:
    if text is None:
        return None
    for escape, meant in ESCAPES.items():
        text = text.replace(escape, meant)
    if not text:
        raise typer.BadParameter("--key-separator must not be empty")
    return text.encode("utf-8", "surrogateescape")


def _codec(compression: Compression) -> Any:
    from protocol.compression import codec_from_name

    return codec_from_name(compression)


def _explain(error: BaseException) -> str:
    known = explained(error)
    return known[0] if known is not None else str(error)


def _report(summary: dict[str, Any], *, as_json: bool, is_quiet: bool) -> None:
    if as_json:
        output.write_json(summary)
        return
    if is_quiet:
        return
    size, seconds = output.size_text(summary["bytes"]), summary["seconds"]
    delivered = output.counted(summary["delivered"])
    text = f"{delivered} ({size}) to {summary['topic']} in {seconds:.1f} s"
    output.say(f"{text}, {summary['failed']:,} failed" if summary["failed"] else text)
