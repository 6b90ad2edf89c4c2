"""Log set-up: structlog, one event a fact, as JSON or for people; never a payload.

An event is a short lower-case phrase; everything that varies is a field:
`log.info("topic created", topic=name, partitions=4)`. Modules ask `get_logger` here for their
logger. What the engine and libraries say through the standard library's `logging` comes out in
the same form; keyword fields travel there in `extra`.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable
from typing import Any, Final, TextIO

_rich_was_loaded = "rich" in sys.modules
if not _rich_was_loaded:
    # structlog.dev and structlog.tracebacks load rich where it is installed, only for prettier
    # tracebacks. That costs a daemon 60 ms and 8 MB, so it is out of sight while they load.
    sys.modules["rich"] = None  # type: ignore[assignment]
try:
    import structlog
finally:
    if not _rich_was_loaded:
        del sys.modules["rich"]

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
TEXT_CHARS_MAX: Final = 4_096
"""A field is cut to this: a log line is no place for data."""

_PLAIN_RECORD_FIELDS: Final = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "message",
    "asctime",
    "taskName",
}


def get_logger(name: str) -> Any:
    """Return the logger of module `name`, its field `component`; later `set_up`s rule it too."""
    return structlog.get_logger(name)


def set_up(*, level: str, output: str, stream: TextIO | None = None) -> None:
    """Send all events from `level` up to `stream` (default: standard error).

    Args:
        level: debug, info, warning or error.
        output: json, console, or auto (console if `stream` is a terminal).
    """
    stream = stream or sys.stderr
    console = output == "console" or (output == "auto" and stream.isatty())
    renderer: Any
    if console:
        renderer = structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    else:
        renderer = structlog.processors.JSONRenderer(default=str, ensure_ascii=False)
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _in_order,
    ]
    if not console:
        processors.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda name="": _NamedLogger(name, stream),
        cache_logger_on_first_use=False,  # SIGHUP may change the level
    )
    root = logging.getLogger()
    root.handlers[:] = [_ToStructlog()]
    root.setLevel(LEVELS[level])


def forward(send: Callable[[int, str, str, dict[str, Any]], object]) -> None:
    """Have `send` take all events (level, component, event, fields) instead of a stream.

    For a worker process: the broker says them, where and as it says its own. Fields that are no
    plain values are made texts.
    """

    def hand_over(logger: Any, _method: str, event: Any) -> Any:
        level = LEVELS.get(event.pop("level"), logging.ERROR)
        text = str(event.pop("event", ""))
        fields = {
            name: value if isinstance(value, int | float | None) else str(value)
            for name, value in event.items()
        }
        send(level, logger.name, text, fields)
        raise structlog.DropEvent

    structlog.configure(
        processors=[
            structlog.processors.add_log_level, structlog.processors.format_exc_info, hand_over
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=lambda name="": _NamedLogger(name, sys.stderr),
    )  # fmt: skip
    root = logging.getLogger()
    root.handlers[:] = [_ToStructlog()]
    root.setLevel(logging.INFO)


class _NamedLogger(structlog.PrintLogger):
    """Writes lines, and knows whose they are."""

    def __init__(self, name: str, stream: TextIO) -> None:
        super().__init__(stream)
        self.name = name

    def msg(self, message: str) -> None:
        """Write a line; where that fails it is lost: nobody can be told, and the broker goes on.

        An error here would end whatever has logged, the handler of SIGTERM for one.
        """
        with contextlib.suppress(OSError):  # a pipe that is read no more, a full disk
            super().msg(message)

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


def _in_order(logger: _NamedLogger, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Put what every event has first, and cut what is too long."""
    ordered = {name: event.pop(name) for name in ("timestamp", "level", "event")}
    ordered["component"] = logger.name
    for name, value in event.items():
        if isinstance(value, bytes | bytearray | memoryview):
            value = f"<{len(value)} bytes>"  # never a payload
        elif isinstance(value, str) and len(value) > TEXT_CHARS_MAX:
            value = f"{value[:TEXT_CHARS_MAX]}... ({len(value)} characters)"
        ordered[name] = value
    return ordered


class _ToStructlog(logging.Handler):
    """Hands what was said through `logging` to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = {
            name: value
            for name, value in vars(record).items()
            if name not in _PLAIN_RECORD_FIELDS and name not in ("event", "level", "timestamp")
        }
        if record.exc_info and record.exc_info[0] is not None:
            fields["exc_info"] = record.exc_info
        try:
            say = structlog.get_logger(record.name)
            say.log(min(record.levelno, logging.CRITICAL), record.getMessage(), **fields)
        except Exception:  # a log line must never end the daemon
            self.handleError(record)
