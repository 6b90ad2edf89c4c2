"""SegmentsPage: `/v1/topics/{topic}/segments`, why each segment is kept or when it goes, as JSON.

GET /v1/topics/logs/segments                      all partitions
GET /v1/topics/logs/segments?partition=0&partition=3
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from broker.clock import Clock
from broker.segment_explanations import topic_explanation
from broker.storage.retention_explained import TopicExplanation
from protocol.errors import UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from broker.partition_manager import PartitionManager

PATH: Final = "/v1/topics/{topic}/segments"
AT_ONCE_MAX: Final = 2
"""Answers of thousands of segments are some megabytes."""


class SegmentsPage:
    """Answers requests for `PATH`."""

    def __init__(self, manager: Callable[[], PartitionManager | None], clock: Clock) -> None:
        """Args:
        manager: Gives the partitions; None as long as there are none.
        """
        self._manager, self._clock = manager, clock
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request; the loop goes on in between."""
        manager = self._manager()
        if manager is None:
            return _answer(_error("the broker is not ready"), 503)
        texts = request.query.getall("partition", [])
        if not all(text.isascii() and text.isdigit() and len(text) <= 10 for text in texts):
            return _answer(_error("partition must be a number"), 400)
        try:
            async with self._turns:
                found = await self._explained(
                    manager, request.match_info["topic"], [int(text) for text in texts]
                )
        except UnknownTopicOrPartitionError as error:
            return _answer(_error(str(error)), 404)
        return _answer(msgspec.json.encode(found), 200)

    async def _explained(
        self, manager: PartitionManager, topic: str, partitions: list[int]
    ) -> TopicExplanation:
        steps = topic_explanation(manager, self._clock, topic, partitions)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                found: TopicExplanation = stop.value
                return found
            await asyncio.sleep(0)


def _error(text: str) -> bytes:
    return json.dumps({"error": text}).encode()


def _answer(body: bytes, status: int) -> web.Response:
    return web.Response(
        body=body + b"\n",
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
