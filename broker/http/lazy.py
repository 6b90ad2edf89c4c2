"""LazyHttp: HTTP whose sockets are bound early and whose server is loaded late.

aiohttp and prometheus-client take 0.2 to 0.4 s to import. So the import happens once the data
listeners accept, in a thread: the event loop serves clients meanwhile, only a little slower.
Whoever connects earlier waits in the sockets' queue.

A thread that runs Python keeps the interpreter lock until somebody has waited for it for the switch
interval, 5 ms if nothing is said, each time that the loop comes back from a system call.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from broker.config import HttpConfig
from broker.health import Health
from broker.metrics import Metrics
from broker.network.listening import address_text, bind_all
from broker.version import version

if TYPE_CHECKING:
    from broker.http.server import HttpServer

SWITCH_INTERVAL_S: Final = 0.0002
"""While a thread imports: one turn of the loop asks for the interpreter lock five times or so."""


class LazyHttp:
    """The HTTP side of the daemon."""

    def __init__(self, config: HttpConfig, health: Health, metrics: Metrics) -> None:
        self._config, self._health, self._metrics = config, health, metrics
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
        loop = asyncio.get_running_loop()
        with _loop_goes_first():
            module = await loop.run_in_executor(None, importlib.import_module, "broker.http.server")
        config = self._config
        exporter = module.Exporter(
            self._metrics,
            self._health,
            version=version(),
            topics_max=config.metric_topics_max,
            partitions_max=config.metric_partitions_max,
        )
        self._server = module.HttpServer(self._health, exporter)
        await self._server.start(self._sockets)


@contextmanager
def _loop_goes_first() -> Iterator[None]:
    """Keep a thread that imports from holding the loop up, as far as Python can.

    What remains is what C does in one piece: a millisecond for the largest modules. Collections
    would take longer, and are in vain: what is imported stays.
    """
    interval_s, is_collecting = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(min(interval_s, SWITCH_INTERVAL_S))
    gc.disable()
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        if is_collecting:
            gc.freeze()
            gc.enable()
