"""Listeners: the doors of one broker, one for each protocol, opened and closed together.

The Kafka protocol's code takes longer to load than all else at a start, so it is loaded when the
native door is open already. Its port listens from the start: who comes early is served a moment
later.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

import structlog

from broker.advertised import advertised_address
from broker.http.background_import import import_with_breaks
from broker.native_api.native_api import NativeApi
from broker.network.listener import Listener
from broker.network.listening import address_text, bind_all

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.config import Config
    from broker.kafka_api.kafka_api import KafkaApi
    from broker.metrics import Metrics
    from broker.network.answers import FrameHandler
    from broker.network.connection import Connection
    from broker.network.limits import Admission
    from broker.partition_manager import PartitionManager

log = structlog.get_logger("tidelog.network")


class Listeners:
    """Made closed; `open` once, `stop_accepting` and `drain` once."""

    def __init__(
        self, config: Config, *, clock: Clock, metrics: Metrics, admission: Admission
    ) -> None:
        self._config, self._clock = config, clock
        self._metrics, self._admission = metrics, admission
        self._all: list[Listener] = []
        self._kafka: KafkaApi | None = None
        self._kafka_sockets: list[socket.socket] = []
        self._loading: asyncio.Task[None] | None = None
        self._kafka_problem: str | None = None
        metrics.connections_open = lambda: admission.connections
        metrics.receive_buffer_bytes = lambda: admission.buffers.held_bytes
        metrics.is_accepting = lambda: all(each.is_accepting for each in self._all)

    async def open(
        self, manager: PartitionManager, executor: Executor, *, maps_slices: bool
    ) -> None:
        """Return when clients are served.

        Args:
            executor: For what requests wait for in threads.
            maps_slices: The loop's transports send mapped memory without touching it.

        Raises:
            ConfigError: a port cannot be bound.
        """
        settings = self._config.listeners
        loop = asyncio.get_running_loop()
        sockets = bind_all(settings.host, settings.native_port, "listeners.native_port")
        native = NativeApi(
            manager, loop=loop, clock=self._clock, executor=executor, limits=self._config.limits,
            metrics=self._metrics, maps_slices=maps_slices,
        )  # fmt: skip
        self._add("native", sockets, native.session, manager)
        if settings.kafka_enabled:
            sockets = bind_all(settings.host, settings.kafka_port, "listeners.kafka_port")
            advertised = self._advertised(sockets)
            self._kafka_sockets = sockets
            loading = self._open_kafka(manager, executor, advertised, maps_slices)
            self._loading = loop.create_task(loading)
        await self._all[0].start()

    async def _open_kafka(
        self,
        manager: PartitionManager,
        executor: Executor,
        advertised: tuple[str, int],
        maps_slices: bool,
    ) -> None:
        """Load the Kafka protocol, and let in who waits at its port."""
        loop = asyncio.get_running_loop()
        try:
            module = await loop.run_in_executor(
                executor, import_with_breaks, "broker.kafka_api.kafka_api"
            )
            self._kafka = module.KafkaApi(
                manager, config=self._config, loop=loop, clock=self._clock, executor=executor,
                metrics=self._metrics, maps_slices=maps_slices, advertised=advertised,
                cluster_id=manager.store.directories.cluster_id,
            )  # fmt: skip
            self._add("kafka", self._kafka_sockets, self._kafka.session, manager)
            await self._all[-1].start()
            self._kafka.coordinator.begin()
        except Exception as error:
            log.exception("the Kafka protocol cannot be served")
            self._kafka_problem = f"kafka: cannot be served: {error}"

    async def loaded(self) -> None:
        """Return when every protocol is served."""
        if self._loading is not None:
            await asyncio.wait({self._loading})

    def _advertised(self, sockets: list[socket.socket]) -> tuple[str, int]:
        settings = self._config.listeners
        port = sockets[0].getsockname()[1]
        advertised = advertised_address(settings.kafka_advertised, settings.host, port)
        log.info("Kafka clients are told", address=str(advertised))
        if advertised.doubt is not None:
            log.warning(advertised.doubt)
        return advertised.host, advertised.port

    def _add(
        self,
        name: str,
        sockets: list[socket.socket],
        make_handler: Callable[[Connection], FrameHandler],
        manager: PartitionManager,
    ) -> None:
        listener = Listener(
            name, sockets, make_handler, self._admission, self._metrics, manager.spare_files
        )
        self._all.append(listener)

    @property
    def addresses(self) -> dict[str, list[str]]:
        """Where it listens, by protocol, as "127.0.0.1:9091"."""
        kafka = [address_text(each) for each in self._kafka_sockets]
        return {"native": self._all[0].addresses, "kafka": kafka}

    def problems(self) -> list[str]:
        """Return what is wrong with them, a sentence each."""
        found = [problem for listener in self._all for problem in listener.problems()]
        return found if self._kafka_problem is None else [*found, self._kafka_problem]

    def stop_accepting(self) -> None:
        """Handle no further request; answers still leave."""
        if self._loading is not None:
            self._loading.cancel()
        for listener in self._all:
            listener.stop_accepting()
        for each in self._kafka_sockets:  # if its listener was not made yet
            each.close()

    async def drain(self, deadline_s: float) -> int:
        """Close all connections once they are answered; return how many were cut."""
        if self._kafka is not None:
            self._kafka.coordinator.drain()
        return sum(await asyncio.gather(*(each.drain(deadline_s) for each in self._all)))
