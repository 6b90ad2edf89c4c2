"""Scripted clients: both clients, in front of a server that answers as a script says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from protocol.native import responses
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from tidelog.client import (
    AsyncClient,
    Client,
)

BATCH = build_batch([Record(7, 1000, b"k", b"v"), Record(8, 1001, None, b"w")], base_offset=7)


def fetched(message_set: bytes = BATCH, error: int = 0) -> bytes:
    return b"".join(responses.message_set_send(error, [message_set]))


class BlockingCalls:
    """The blocking client behind the interface that these tests use."""

    def __init__(self, address: str, **settings: Any) -> None:
        self._client = Client(address, **settings)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return getattr(self._client, name)


class AsyncCalls:
    """The asyncio client, each call run to its end."""

    def __init__(self, address: str, **settings: Any) -> None:
        self._runner = asyncio.Runner()
        self._runner.get_loop()
        self._client = self._runner.run(self._make(address, settings))

    async def _make(self, address: str, settings: dict[str, Any]) -> AsyncClient:
        return AsyncClient(address, **settings)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._runner.run(
            getattr(self._client, name)(*args, **kwargs)
        )

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


Connect = Callable[..., Any]
