"""HTTP server: /metrics, /healthz and /readyz for Prometheus, Kubernetes and people; JSON pages.

Importing this module loads aiohttp and prometheus-client (0.2 to 0.4 s): the daemon does so only
once the data listeners accept.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiohttp import web

from broker.clock import Clock, SystemClock
from broker.health import Health
from broker.http.metrics_export import CONTENT_TYPE, Exporter
from broker.http.segments import PATH as SEGMENTS_PATH
from broker.http.segments import SegmentsPage

if TYPE_CHECKING:
    from broker.partition_manager import PartitionManager

REQUEST_BYTES_MAX: Final = 64 * 1024
KEEPALIVE_SECONDS: Final = 75.0


class HttpServer:
    """Serves the application on sockets that are bound already."""

    def __init__(
        self,
        health: Health,
        exporter: Exporter,
        manager: Callable[[], PartitionManager | None] = lambda: None,
        clock: Clock | None = None,
    ) -> None:
        """Args:
        manager: Gives topics and partitions, once there are any.
        """
        self._health, self._exporter = health, exporter
        self._segments = SegmentsPage(manager, clock or SystemClock())
        self._runner: web.AppRunner | None = None

    async def start(self, sockets: list[socket.socket]) -> None:
        app = web.Application(client_max_size=REQUEST_BYTES_MAX)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get(SEGMENTS_PATH, self._segments.handle)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=KEEPALIVE_SECONDS,
            shutdown_timeout=1.0,
        )
        await self._runner.setup()
        for one in sockets:
            await web.SockSite(self._runner, one).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, _request: web.Request) -> web.Response:
        body = await self._exporter.text()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _healthz(self, _request: web.Request) -> web.Response:
        """Alive: that this runs says that the event loop turns."""
        return _json({"status": "alive"}, 200)

    async def _readyz(self, _request: web.Request) -> web.Response:
        """Whether to send clients here. Degraded is still 200: the rest of the data is served."""
        return _json(self._health.report(), 200 if self._health.is_ready else 503)


def _json(body: object, status: int) -> web.Response:
    return web.Response(
        text=json.dumps(body) + "\n",
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
