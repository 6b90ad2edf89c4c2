"""Daemon: the broker as a process: configuration, event loop, signals, exit code.

One of the two doors through which `tidelog` enters `broker` (the other is `offline`):

    serve(config_file=..., settings=...)   runs until SIGTERM; returns an exit code
    main(arguments)                        the same, from a command line
    Broker(load(...))                      a broker inside a program: `start`, `stop`

SIGTERM and SIGINT drain; a second one, or `daemon.shutdown_timeout_ms`, ends the process at once.
SIGHUP reads the configuration again. Exit codes: `exit_codes`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from broker import log_setup  # before all others: it keeps rich out of the process
from broker.arguments import ServeArguments, parse_arguments
from broker.composition import Broker
from broker.config import Config
from broker.config_sources import InvalidConfigurationError, LoadedConfig, load
from broker.exit_codes import ExitCode, StartError
from broker.freed_memory import keep_freed_memory
from broker.process_limits import raise_open_files_limit
from broker.version import version
from protocol import checksum
from protocol.errors import TidelogError

__all__ = [
    "Broker",
    "Config",
    "ExitCode",
    "InvalidConfigurationError",
    "LoadedConfig",
    "ServeArguments",
    "StartError",
    "load",
    "main",
    "parse_arguments",
    "serve",
    "version",
]

log = log_setup.get_logger("tidelog.daemon")

GIVE_UP_S: Final = 10.0
"""A start that is to end may still have a thread that waits for a disk; the kernel ends that."""


def main(arguments: Sequence[str]) -> int:
    """Run the daemon with a command line's arguments; return its exit code.

    Raises:
        SystemExit: wrong usage, --help or --version.
    """
    parsed = parse_arguments(arguments)
    return serve(config_file=parsed.config_file, settings=parsed.settings)


def serve(
    *,
    config_file: Path | None = None,
    settings: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a broker in this process until it is told to stop; return the exit code.

    It does not return but ends the process, with the same code, where something of the broker may
    be stuck: after a drain that took too long, a failed flush, a bug, a stop in mid-recovery.

    Args:
        settings: `table.key=value` texts, as of --set.
        environment: The process's own without it.
    """
    variables = os.environ if environment is None else environment
    listed = tuple(settings)

    def read_configuration() -> LoadedConfig:
        return load(config_file, environment=variables, settings=listed)

    try:
        loaded = read_configuration()
    except InvalidConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.USAGE
    output = loaded.config.log
    log_setup.set_up(level=output.level, output=output.format)
    checksum.self_test()
    raise_open_files_limit(loaded.config)
    keep_freed_memory()
    return _run(Broker(loaded, environment=variables, reload_from=read_configuration))


def _run(broker: Broker) -> ExitCode:
    """Run the broker on the best event loop there is."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            end = runner.run(_until_stopped(broker))
        except StartError as error:
            log.error("cannot start", reason=str(error))
            return error.exit_code
        except Exception:
            log.exception("unexpected error")
            end = _End(ExitCode.BUG, is_tidy=False)
        if not end.is_tidy:
            # Leaving would wait for tasks and threads that may be stuck in the disk.
            logging.shutdown()
            sys.stderr.flush()
            os._exit(end.code)
        return end.code


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory; None, asyncio's own, where uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        log.warning("uvloop is missing; asyncio's own loop is slower")
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


class _End(NamedTuple):
    """How the broker ended; not tidy: something of it may still be under way."""

    code: ExitCode
    is_tidy: bool = True


async def _until_stopped(broker: Broker) -> _End:
    """Start, wait for a signal or a failure, drain."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_report)
    stop, hurry = asyncio.Event(), asyncio.Event()

    def on_stop(name: str) -> None:
        log.info("signal", name=name)
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_stop, number.name)
    loop.add_signal_handler(signal.SIGHUP, broker.reload)
    starting = loop.create_task(broker.start())
    await _first_of(starting, stop, broker.failed)
    if starting.done():
        starting.result()
        await _first_of(None, stop, broker.failed)
    if broker.failed.is_set():
        await broker.answer_failure()
        return _End(ExitCode.DISK, is_tidy=False)
    if not starting.done():
        await _give_up(starting, hurry)
        return _End(ExitCode.DRAINED, is_tidy=False)
    return await _drained(broker, hurry)


async def _give_up(starting: asyncio.Task[None], hurry: asyncio.Event) -> None:
    """End a start that is not over: nothing was served, so there is nothing to drain.

    What recovers ends at its next step, for nobody else may find it at work on the logs. The next
    start does again what was not finished, since the clean marker is not there.
    """
    starting.cancel()
    await _first_of(starting, hurry, timeout_s=GIVE_UP_S)
    log.info("stopped before it was ready")


async def _drained(broker: Broker, hurry: asyncio.Event) -> _End:
    timeout_s = broker.config.daemon.shutdown_timeout_ms / 1000
    stopping = asyncio.get_running_loop().create_task(broker.stop())
    await _first_of(stopping, hurry, broker.failed, timeout_s=timeout_s)
    if broker.failed.is_set():
        return _End(ExitCode.DISK, is_tidy=False)
    if not stopping.done():
        reason = "a second signal" if hurry.is_set() else f"{timeout_s} s have passed"
        log.error("not drained; the next start recovers", reason=reason)
        return _End(ExitCode.NOT_DRAINED, is_tidy=False)
    try:
        stopping.result()
    except (OSError, TidelogError) as error:
        log.error("not stopped cleanly; the next start recovers", error=str(error))
        return _End(ExitCode.NOT_DRAINED, is_tidy=False)
    return _End(ExitCode.DRAINED)


async def _first_of(
    task: asyncio.Task[None] | None, *events: asyncio.Event, timeout_s: float | None = None
) -> None:
    """Return when the task is done, an event is set, or the time has passed."""
    waits = {asyncio.ensure_future(event.wait()) for event in events}
    everything: set[asyncio.Future[object]] = {*waits}  # type: ignore[arg-type]
    if task is not None:
        everything.add(task)  # type: ignore[arg-type]
    try:
        await asyncio.wait(everything, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _report(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log what a callback or a forgotten task raised."""
    error = context.get("exception")
    exc_info = error if isinstance(error, BaseException) else None
    log.error("unexpected error", what=str(context.get("message")), exc_info=exc_info)
