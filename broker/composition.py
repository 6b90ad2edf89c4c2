"""Composition: builds one broker of its parts, starts, drains, reloads and stops it.

Start: data directories are opened and recovered, sockets bound, clients served; then, beside them,
HTTP and the compression libraries are loaded. Stop: nothing new is accepted, long polls end, what
is in flight is answered, everything is flushed and checkpointed, and the clean-shutdown mark is
written.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from broker import log_setup  # before all others: it keeps rich out of the process
from broker.clock import Clock, SystemClock
from broker.config import Config
from broker.config_sources import InvalidConfigurationError, LoadedConfig
from broker.connection_limits import connection_limits
from broker.exit_codes import ExitCode, StartError
from broker.health import Health, State
from broker.http.background_import import import_with_breaks
from broker.http.lazy import LazyHttp
from broker.kernel_syncs import KernelSyncs
from broker.late_work import LateWork
from broker.listeners import Listeners
from broker.loop_watch import LoopWatch
from broker.metrics import Metrics
from broker.network.limits import Admission
from broker.partition_manager import PartitionManager
from broker.ready_file import remove_ready_file, write_ready_file
from broker.reload import changes_between
from broker.sd_notify import SystemdNotifier
from broker.start_recovery import StartRecovery
from broker.stopped.running import refuse_running
from broker.storage.disk import Disk
from broker.storage.os_disk import OsDisk
from broker.version import version
from protocol.errors import ConfigError, DataDirectoryError

log = log_setup.get_logger("tidelog.daemon")

REQUEST_THREADS: Final = 4
"""For cold reads and decompression: they only wait, for the disk or outside the GIL."""
ANSWERING_SHARE: Final = 0.7
"""Of the time a drain may take, for answers to leave; the rest is for flushing and closing."""
FAILURE_ANSWERS_S: Final = 1.0
"""What clients get to take the answers of a broker whose disk has failed."""
SLOW_OPEN_S: Final = 3.0
"""If opening takes longer, HTTP is loaded meanwhile, so that /readyz can say why."""
RECOVERY_SIGN_S: Final = 30.0
"""A recovery tells systemd each second that it goes on; for so long it may be silent."""


class Broker:
    """One broker in this process. `start` it once, then `stop` it once; on one event loop."""

    def __init__(
        self,
        loaded: LoadedConfig,
        *,
        environment: Mapping[str, str] | None = None,
        reload_from: Callable[[], LoadedConfig] | None = None,
        clock: Clock | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Args:
        environment: Where systemd's variables are looked for; none without it.
        reload_from: Gives the configuration anew, for `reload`.
        """
        self.config: Config = loaded.config
        self.health, self.metrics = Health(), Metrics()
        self.failed = asyncio.Event()
        """Set when the disk failed a flush: nothing is acknowledged any more; end the process."""
        self._reload_from = reload_from
        self._clock, self._disk = clock or SystemClock(), disk or OsDisk()
        self._systemd = SystemdNotifier(environment or {})
        self._admission = Admission(connection_limits(self.config))
        self._http = LazyHttp(self.config.http, self.health, self.metrics, lambda: self._manager)
        self._manager: PartitionManager | None = None
        self._listeners: Listeners | None = None
        self._executors: list[ThreadPoolExecutor] = []
        self._kernel_syncs: KernelSyncs | None = None
        self._request_threads: ThreadPoolExecutor
        self._watch: LoopWatch | None = None
        self._late_work: LateWork | None = None
        self._is_stopping = False
        self.addresses: dict[str, list[str]] = {"native": [], "kafka": [], "http": []}
        """Where it listens, by protocol, as "127.0.0.1:9091"; empty before `start`."""

    @property
    def manager(self) -> PartitionManager:
        """Topics and partitions, once started."""
        assert self._manager is not None, "the broker has not been started"
        return self._manager

    # --- start ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Return when clients are served.

        Raises:
            StartError: it cannot be; what was opened is closed again.
        """
        started_s = time.monotonic()
        loop = asyncio.get_running_loop()
        log.info(
            "starting",
            version=version(),
            pid=os.getpid(),
            python=".".join(map(str, sys.version_info[:3])),
            loop=type(loop).__module__.partition(".")[0],
            data_dirs=list(self.config.storage.data_dirs),
        )
        self._begin_watch(loop)
        try:
            self._bind_http()
            with _collector_paused():
                await self._open_partitions(loop)
            await self._listen(loop)
        except BaseException:
            await self._abandon()
            raise
        self.health.enter(State.READY)
        self._tell_ready(time.monotonic() - started_s)
        gc.freeze()  # what start-up made stays: the collector need never visit it
        self._late_work = LateWork(
            self.manager.store.directories.present,
            self.config,
            clock=self._clock,
            metrics=self.metrics,
            make_threads=self._make_threads,
        )
        self._late_work.begin()
        # On the event loop the first compressed batch would hold up everybody with this import.
        warming = self._request_threads.submit(import_with_breaks, "protocol.compressors")
        warming.add_done_callback(_report_missing_compressors)
        loading = self._http.start_soon()
        if loading is not None:
            loading.add_done_callback(_freeze_or_report)

    def _begin_watch(self, loop: asyncio.AbstractEventLoop) -> None:
        interval_s = self._systemd.watchdog_interval_s
        self._watch = LoopWatch(
            loop,
            self.metrics.loop_lag,
            sign_of_life=None if interval_s is None else self._systemd.watchdog,
            sign_interval_s=interval_s or 0.0,
        )
        self._watch.start()

    def _bind_http(self) -> None:
        if self.config.daemon.ready_file:
            remove_ready_file(Path(self.config.daemon.ready_file))
        try:
            self._http.bind()
            self.addresses["http"] = self._http.addresses
        except ConfigError as error:
            raise StartError(ExitCode.LISTEN, str(error)) from error

    async def _open_partitions(self, loop: asyncio.AbstractEventLoop) -> None:
        self.health.recovering("data directories are being opened")
        self._systemd.status("opening data directories")
        if self.config.flush.in_kernel:
            self._kernel_syncs = KernelSyncs.opened(loop)
        manager = PartitionManager(
            self.config,
            loop=loop,
            disk=self._disk,
            clock=self._clock,
            metrics=self.metrics,
            on_fatal=self._fail,
            maps_files=_sends_mapped_memory(loop),
            flush_executor=self._make_threads(self.config.flush.threads, "flush"),
            kernel_syncs=self._kernel_syncs,
            registry_executor=self._make_threads(1, "registry"),
            recovery=StartRecovery(
                monotonic=self._clock.monotonic,
                metrics=self.metrics.storage,
                tell=self._tell_recovery,
            ),
        )
        try:
            for path in self.config.storage.data_dirs:
                refuse_running(Path(path))  # first of all, for it is the likeliest, and plainest
            await self._with_http_if_slow(loop.create_task(manager.open()))
        except (DataDirectoryError, OSError) as error:
            raise StartError(ExitCode.DATA_DIRECTORY, str(error)) from error
        self._manager = manager
        self.health.watch(manager.degraded)

    def _tell_recovery(self, progress: str) -> None:
        self.health.recovering(progress)
        self._systemd.status(progress)
        self._systemd.extend_timeout(RECOVERY_SIGN_S)

    async def _with_http_if_slow(self, opening: asyncio.Task[None]) -> None:
        try:
            done, _ = await asyncio.wait({opening}, timeout=SLOW_OPEN_S)
            if not done:
                self._http.start_soon()
            await opening
        finally:
            opening.cancel()

    def _make_threads(self, count: int, name: str) -> ThreadPoolExecutor:
        executor = ThreadPoolExecutor(count, f"tidelog-{name}")
        self._executors.append(executor)
        return executor

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        self._request_threads = self._make_threads(REQUEST_THREADS, "request")
        self._listeners = Listeners(
            self.config, clock=self._clock, metrics=self.metrics, admission=self._admission
        )
        try:
            await self._listeners.open(
                self.manager, self._request_threads, maps_slices=_sends_mapped_memory(loop)
            )
        except ConfigError as error:
            raise StartError(ExitCode.LISTEN, str(error)) from error
        self.health.watch(self._listeners.problems)
        self.addresses |= self._listeners.addresses

    def _tell_ready(self, seconds: float) -> None:
        addresses = self.addresses
        log.info("listening", **addresses)
        if self.config.daemon.ready_file:
            path = Path(self.config.daemon.ready_file)
            try:
                write_ready_file(path, addresses)
            except OSError as error:  # whoever waits for it would wait for ever
                problem = f"daemon.ready_file: cannot write {path}: {error.strerror}"
                raise StartError(ExitCode.USAGE, problem) from error
        served = ", ".join([*addresses["native"], *addresses["kafka"]])
        self._systemd.ready(f"serving on {served}")
        log.info("ready", seconds=round(seconds, 3), topics=len(self.manager.topics()))
        for sentence in self.manager.degraded():
            log.warning("degraded", problem=sentence)

    async def _abandon(self) -> None:
        """Close what a start that failed has opened."""
        self.health.failed("the start failed")
        if self._listeners is not None:
            self._listeners.stop_accepting()
        await self._stop_rest()

    # --- while it runs --------------------------------------------------------------------------

    def reload(self) -> None:
        """Take over what can be taken over of the configuration as it is now (SIGHUP)."""
        if self._reload_from is None or not self.health.is_ready:
            return
        self._systemd.reloading()
        try:
            new = self._reload_from().config
        except InvalidConfigurationError as error:
            log.error("configuration not reloaded", problems=[str(one) for one in error.problems])
        else:
            self._take_over(new)
        self._systemd.ready("serving")

    def _take_over(self, new: Config) -> None:
        changes = changes_between(self.config, new)
        if new.log != self.config.log:
            log_setup.set_up(level=new.log.level, output=new.log.format)
        self._admission.limits = connection_limits(new)
        if new.topics != self.config.topics:
            self.manager.use_topic_defaults(new.topics)
        self.config = new
        log.info("configuration reloaded", changed=list(changes.taken_over))
        if changes.needing_restart:
            log.warning("restart needed for", keys=list(changes.needing_restart))

    def _fail(self, error: BaseException) -> None:
        """The disk failed a flush: serve nobody any more."""
        self.health.failed(f"the disk failed: {error}")
        log.error("the disk failed; the broker ends", error=str(error))
        self.failed.set()

    async def answer_failure(self) -> None:
        """After `failed`: let the answers that say so leave, for a moment; accept nobody."""
        if self._listeners is not None:
            self._listeners.stop_accepting()
            await self._listeners.drain(time.monotonic() + FAILURE_ANSWERS_S)

    # --- stop -----------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Drain: return when everything is answered, flushed, and marked as cleanly stopped.

        A second call does nothing.

        Raises:
            OSError, TidelogError: something could not be saved; nothing acknowledged is lost.
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        timeout_ms = self.config.daemon.shutdown_timeout_ms
        deadline_s = time.monotonic() + timeout_ms / 1000 * ANSWERING_SHARE
        self.health.enter(State.DRAINING, "the broker is stopping")
        self._systemd.stopping("draining")
        log.info("draining", connections=self._admission.connections, timeout_ms=timeout_ms)
        if self.config.daemon.ready_file:
            remove_ready_file(Path(self.config.daemon.ready_file))
        cut = 0
        if self._listeners is not None:
            self._listeners.stop_accepting()
            self.manager.drain()
            cut = await self._listeners.drain(deadline_s)
        await self._stop_rest()
        log.info("stopped", connections_cut=cut)

    async def _stop_rest(self) -> None:
        """Close everything behind the listener, in the end the data directories."""
        try:
            if self._late_work is not None:
                await self._late_work.end()
            if self._manager is not None:
                await self._manager.close()
        finally:
            if self._watch is not None:
                self._watch.stop()
            for executor in self._executors:
                executor.shutdown(wait=False, cancel_futures=True)
            if self._kernel_syncs is not None:
                self._kernel_syncs.close()
            await self._http.stop()

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()


def _sends_mapped_memory(loop: asyncio.AbstractEventLoop) -> bool:
    """Only uvloop hands memory to the kernel untouched; asyncio copies it in Python, where a
    mapped file that was cut short would kill the process."""
    return type(loop).__module__.startswith("uvloop")


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Leave garbage alone: opening thousands of logs makes next to none, and to look through what
    it makes again and again takes a quarter of its time."""
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()


def _report_missing_compressors(warming: Future[Any]) -> None:
    if not warming.cancelled() and (error := warming.exception()) is not None:
        log.error("compressed batches cannot be read", exc_info=error)


def _freeze_or_report(loading: asyncio.Task[Any]) -> None:
    if loading.cancelled():
        return
    error = loading.exception()
    if error is None:
        gc.freeze()  # what HTTP brought in stays too
    else:
        log.error("HTTP cannot be served", exc_info=error)
