"""Errors: from what went wrong in a command to one sentence and an exit code."""

from __future__ import annotations

import enum
import re
import sys
from typing import Final

import typer


class ExitCode(enum.IntEnum):
    """How a command ended, as docs/command-line.md lists them; `serve` has codes of its own."""

    DONE = 0
    FAILED = 1
    """It could not be done, or not wholly; of checks: something was found."""
    USAGE = 2
    """Wrong usage; of `verify` and `dump`: what was named could not be read."""
    UNREACHABLE = 3
    """The broker cannot be reached, or the connection was lost."""
    INTERRUPTED = 130
    """Ctrl-C; 128 and the signal's number, as shells have it."""
    TERMINATED = 143
    """SIGTERM, where a command has something to finish first."""


class CommandError(Exception):
    """A command that cannot be done: the sentence for standard error, and the exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message, code)
        self.message, self.code = message, code

    def __str__(self) -> str:
        return self.message


CLICK_ERROR: Final[type[Exception]] = typer.BadParameter.__bases__[0].__bases__[0]
"""ClickException: newer versions of typer carry a click of their own, with no public name."""

TRACEBACK_VARIABLE: Final = "TIDELOG_TRACEBACK"
"""Set, errors that are bugs are shown whole, and what Spark logs is, too."""

_ERRNO: Final = re.compile(r"\[Errno -?\d+\] ")
_HINTS: Final = {
    2: "; `tidelog health` names the offsets, and consume --from goes on behind them",
    56: "; `tidelog health` says why",
}
"""What to do next, by the number of an error whose cause is on the broker's disk."""
_EXTRAS: Final = {
    "numpy": "segments",
    "pyarrow": "segments",
    "pyspark": "spark",
    "py4j": "spark",
    "deltalake": "delta",
    "pyiceberg": "iceberg",
}
"""What to install, by the module that is missing."""
_PIPELINE_CODES: Final = {
    "OptionError": ExitCode.USAGE,
    "BrokerUnreachableError": ExitCode.UNREACHABLE,
}
_TOPIC_ONLY: Final = re.compile(r"[a-zA-Z0-9._-]*")


def explained(error: BaseException) -> tuple[str, ExitCode] | None:
    """Return the sentence and the exit code; None for what is no error of a command's.

    An empty sentence means that nothing is to be said.
    """
    if isinstance(error, CommandError):
        return error.message, error.code
    if isinstance(error, BrokenPipeError):  # `| head` has what it wanted
        return "", ExitCode.DONE
    if isinstance(error, KeyboardInterrupt):
        return "", ExitCode.INTERRUPTED
    if isinstance(error, OSError):
        return _os_error(error), ExitCode.FAILED
    if isinstance(error, ModuleNotFoundError):
        return _missing_module(error)
    return _pipeline_error(error) or _tidelog_error(error)


def usage_error(error: BaseException) -> str | None:
    """Return what is wrong with the command line; None if that is not the error."""
    if not isinstance(error, CLICK_ERROR) or type(error).__name__ == "NoArgsIsHelpError":
        return None
    context = getattr(error, "ctx", None)
    message = str(error.format_message()).rstrip(".")  # type: ignore[attr-defined]
    command = context.command_path if context is not None else "tidelog"
    return f"{message}. See: {command} --help"


def broker_error_text(number: int, message: str) -> str:
    """Return what a broker's error code means; `message` is a topic, a partition or a sentence."""
    from protocol.error_codes import ErrorCode, error_name

    if message and not _TOPIC_ONLY.fullmatch(message):
        return f"{message} ({error_name(number)}){_HINTS.get(number, '')}"
    try:
        text = ErrorCode(number).text.rstrip(".")
    except ValueError:
        text = "an error this version does not know"
    if not message:
        return f"{text} ({error_name(number)})"
    text = f"{message}: {text[:1].lower()}{text[1:]} ({error_name(number)})"
    return text + _HINTS.get(number, "")


def _tidelog_error(error: BaseException) -> tuple[str, ExitCode] | None:
    from protocol.errors import BrokerError, ErrorCode, TidelogError

    if not isinstance(error, TidelogError):
        return None
    if error.code is ErrorCode.NETWORK_EXCEPTION:  # the client's ConnectionLostError
        return f"cannot reach the broker: {_ERRNO.sub('', str(error))}", ExitCode.UNREACHABLE
    if isinstance(error, BrokerError):
        return broker_error_text(error.number, error.message), ExitCode.FAILED
    return str(error), ExitCode.FAILED


def _pipeline_error(error: BaseException) -> tuple[str, ExitCode] | None:
    """Explain what `tidelog.segments`, `tidelog.lake` and `tidelog.spark` raise.

    Their modules are not imported for it, as that takes long: what raised it has imported them.
    """
    for module, name in (
        ("tidelog.segments.errors", "SegmentError"),
        ("tidelog.lake.errors", "LakeError"),
        ("tidelog.spark.errors", "JavaMissingError"),
        ("tidelog.spark.errors", "BrokerUnreachableError"),
        ("tidelog.spark.jobs.job", "JobError"),
    ):
        known = getattr(sys.modules.get(module), name, ())
        if isinstance(error, known):
            return str(error), _PIPELINE_CODES.get(type(error).__name__, ExitCode.FAILED)
    return None


def _missing_module(error: ModuleNotFoundError) -> tuple[str, ExitCode] | None:
    name = (error.name or "").partition(".")[0]
    if name not in _EXTRAS:
        return None
    return (
        f"this needs {name}, which is not installed: pip install 'tidelog[{_EXTRAS[name]}]'",
        ExitCode.FAILED,
    )


def _os_error(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason
