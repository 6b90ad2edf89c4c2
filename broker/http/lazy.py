"""LazyHttp: HTTP whose sockets are bound early and whose server is loaded late.

aiohttp and prometheus-client take 0.2 to 0.4 s to import. So the import happens once the data
listeners accept, in a thread that gives way: the event loop serves clients meanwhile.
Whoever connects earlier waits in the sockets' queue.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.config import HttpConfig
from broker.health import Health
from broker.http.background_import import import_in_background
from broker.metrics import Metrics
from broker.network.listening import address_text, bind_all
from broker.version import version

if TYPE_CHECKING:
    from broker.http.server import HttpServer
    from broker.partition_manager import PartitionManager


class LazyHttp:
    """The HTTP side of the daemon."""

    def __init__(
        self,
        config: HttpConfig,
        health: Health,
        metrics: Metrics,
        manager: Callable[[], PartitionManager | None] = lambda: None,
    ) -> None:
        """Args:
        manager: Gives topics and partitions, once there are any.
        """
        self._config, self._health, self._metrics = config, health, metrics
        self._manager = manager
        self._sockets: list[socket.socket] = []
        self._starting: asyncio.Task[None] | None = None
        self._server: HttpServer | None = None

    @property
    def addresses(self) -> list[str]:
        """Where it listens, as "127.0.0.1:9644"; nothing where it is switched off."""
        return [address_text(one) for one in self._sockets]

    def bind(self) -> None:
        """Take the addresses.

        Raises:
            ConfigError: they cannot be listened on.
        """
        if self._config.enabled:
            self._sockets = bind_all(self._config.host, self._config.port, "http.port")

    def start_soon(self) -> asyncio.Task[None] | None:
        """Load and start the server beside what runs; a second call does nothing more."""
        if self._starting is None and self._sockets:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        return self._starting

    async def stop(self) -> None:
        """Close everything, whatever has been begun."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._server is not None:
            await self._server.stop()
        for one in self._sockets:
            one.close()
        self._sockets = []

    async def _start(self) -> None:
        module = await import_in_background("broker.http.server")
        config = self._config
        exporter = module.Exporter(
            self._metrics,
            self._health,
            version=version(),
            topics_max=config.metric_topics_max,
            partitions_max=config.metric_partitions_max,
        )
        self._server = module.HttpServer(self._health, exporter, self._manager)
        await self._server.start(self._sockets)
