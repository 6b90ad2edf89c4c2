"""Listeners: the doors of one broker, one for each protocol, opened and closed together."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING

import structlog

from broker.advertised import advertised_address
from broker.kafka_api.kafka_api import KafkaApi
from broker.native_api.native_api import NativeApi
from broker.network.listener import Listener
from broker.network.listening import bind_all
from protocol.errors import ConfigError

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.config import Config
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
            ConfigError: a port cannot be bound, or what to advertise is no address.
        """
        settings, config = self._config.listeners, self._config
        loop = asyncio.get_running_loop()
        sockets = bind_all(settings.host, settings.native_port, "listeners.native_port")
        native = NativeApi(
            manager, loop=loop, clock=self._clock, executor=executor, limits=config.limits,
            metrics=self._metrics, maps_slices=maps_slices,
        )  # fmt: skip
        self._add("native", sockets, native.session, manager)
        if settings.kafka_enabled:
            sockets = bind_all(settings.host, settings.kafka_port, "listeners.kafka_port")
            kafka = self._kafka = KafkaApi(
                manager, config=config, loop=loop, clock=self._clock, executor=executor,
                metrics=self._metrics, maps_slices=maps_slices,
                cluster_id=manager.store.directories.cluster_id,
                advertised=self._advertised(sockets),
            )  # fmt: skip
            self._add("kafka", sockets, kafka.session, manager)
        for listener in self._all:
            await listener.start()
        if self._kafka is not None:
            self._kafka.coordinator.begin()

    def _advertised(self, sockets: list[socket.socket]) -> tuple[str, int]:
        settings = self._config.listeners
        port = sockets[0].getsockname()[1]
        try:
            advertised = advertised_address(settings.kafka_advertised, settings.host, port)
        except ConfigError:
            for each in sockets:
                each.close()
            raise
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
        return {listener.name: listener.addresses for listener in self._all}

    def problems(self) -> list[str]:
        """Return what is wrong with them, a sentence each."""
        return [problem for listener in self._all for problem in listener.problems()]

    def stop_accepting(self) -> None:
        """Handle no further request; answers still leave."""
        for listener in self._all:
            listener.stop_accepting()

    async def drain(self, deadline_s: float) -> int:
        """Close all connections once they are answered; return how many were cut."""
        if self._kafka is not None:
            self._kafka.coordinator.drain()
        return sum(await asyncio.gather(*(each.drain(deadline_s) for each in self._all)))
