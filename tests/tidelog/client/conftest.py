"""Clients of both kinds against servers that answer as they are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.scripted_clients import AsyncCalls, BlockingCalls, Connect
from tests.support.scripted_server import Script, ScriptedServer


@pytest.fixture(params=[BlockingCalls, AsyncCalls], ids=["blocking", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    opened: list[Any] = []
    servers: list[ScriptedServer] = []

    def connect(script: Script, **settings: Any) -> tuple[Any, ScriptedServer]:
        servers.append(ScriptedServer(script))
        opened.append(request.param(servers[-1].address, **settings))
        return opened[-1], servers[-1]

    yield connect
    for client in opened:
        client.close()
    for server in servers:
        server.stop()
