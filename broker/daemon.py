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

from broker import log_setup  # before all others: it keeps rich out of the process
from broker.arguments import ServeArguments, parse_arguments
from broker.composition import Broker
from broker.config import Config
from broker.config_sources import InvalidConfigurationError, LoadedConfig, load
from broker.exit_codes import ExitCode, StartError
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

    It does not return but ends the process, with the same code, where threads may be stuck in the
    disk: after a drain that took too long, a failed flush, or a bug.

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
    broker = Broker(loaded, environment=variables, reload_from=read_configuration)
    code = _run(broker)
    if code in (ExitCode.BUG, ExitCode.NOT_DRAINED, ExitCode.DISK):
        logging.shutdown()
        sys.stderr.flush()
        os._exit(code)  # interpreter shutdown would wait for those threads
    return code


def _run(broker: Broker) -> ExitCode:
    """Run the broker on the best event loop there is."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            return runner.run(_until_stopped(broker))
        except StartError as error:
            log.error("cannot start", reason=str(error))
            return error.exit_code
        except Exception:
            log.exception("unexpected error")
            return ExitCode.BUG


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory; None, asyncio's own, where uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        log.warning("uvloop is missing; asyncio's own loop is slower")
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _until_stopped(broker: Broker) -> ExitCode:
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
    if not starting.done():
        return await _stopped_while_starting(starting, broker)
    starting.result()
    await _first_of(None, stop, broker.failed)
    if broker.failed.is_set():
        return ExitCode.DISK
    return await _drained(broker, hurry)


async def _stopped_while_starting(starting: asyncio.Task[None], broker: Broker) -> ExitCode:
    """Nothing was served yet, so there is nothing to drain; recovery begins anew next time."""
    starting.cancel()
    await asyncio.wait({starting}, timeout=broker.config.daemon.shutdown_timeout_ms / 1000)
    if broker.failed.is_set():
        return ExitCode.DISK
    return ExitCode.DRAINED if starting.done() else ExitCode.NOT_DRAINED


async def _drained(broker: Broker, hurry: asyncio.Event) -> ExitCode:
    timeout_s = broker.config.daemon.shutdown_timeout_ms / 1000
    stopping = asyncio.get_running_loop().create_task(broker.stop())
    await _first_of(stopping, hurry, broker.failed, timeout_s=timeout_s)
    if broker.failed.is_set():
        return ExitCode.DISK
    if not stopping.done():
        reason = "a second signal" if hurry.is_set() else f"{timeout_s} s have passed"
        log.error("not drained; the next start recovers", reason=reason)
        return ExitCode.NOT_DRAINED
    try:
        stopping.result()
    except (OSError, TidelogError) as error:
        log.error("not stopped cleanly; the next start recovers", error=str(error))
        return ExitCode.NOT_DRAINED
    return ExitCode.DRAINED


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
