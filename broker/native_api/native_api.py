"""NativeApi: what the handlers of the native protocol share, and the table of request types."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from broker.clock import Clock, SystemClock
from broker.metrics import Metrics, RequestMetrics
from broker.native_api.fetch import FetchHandler
from broker.native_api.offsets import OffsetsHandler
from broker.native_api.produce import ProduceHandler
from broker.native_api.session import Handle, HandleRun, NativeSession
from broker.native_api.topic_changes import TopicChangesHandler
from broker.native_api.topics import TopicsHandler
from broker.native_api.transactions import TransactionsHandler
from broker.requests.step_runner import StepRunner
from protocol.native.request_types import RequestType

if TYPE_CHECKING:
    from broker.config import LimitsConfig
    from broker.network.connection import Connection
    from broker.partition_manager import PartitionManager


class NativeApi:
    """The native protocol's side of one broker; `session` is what a listener needs."""

    def __init__(
        self,
        manager: PartitionManager,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        executor: Executor,
        limits: LimitsConfig,
        metrics: Metrics,
        maps_slices: bool,
    ) -> None:
        """Args:
        executor: Threads that only wait in system calls or outside the GIL: cold reads,
            decompression.
        maps_slices: The loop's transports send mapped memory without touching it (uvloop).
        """
        self.manager, self.loop, self.clock, self.limits = manager, loop, clock, limits
        self.metrics, self.maps_slices = metrics, maps_slices
        # Asked twice for each request: spare the system clock's frame of Python.
        self.monotonic = time.monotonic if isinstance(clock, SystemClock) else clock.monotonic
        self.runner = StepRunner(loop, executor, self.monotonic)
        produce, fetch = ProduceHandler(self), FetchHandler(self)
        offsets, topics = OffsetsHandler(self), TopicsHandler(self)
        changes = TopicChangesHandler(self)
        handles: dict[RequestType, Handle] = {
            RequestType.PRODUCE: produce.produce,
            RequestType.FETCH: fetch.fetch,
            RequestType.MULTIFETCH: fetch.multi_fetch,
            RequestType.MULTIPRODUCE: produce.multi_produce,
            RequestType.OFFSETS: offsets.offsets,
            RequestType.TOPICS: topics.topics,
            RequestType.CREATE_TOPIC: changes.create_topic,
            RequestType.DELETE_TOPIC: changes.delete_topic,
            RequestType.APPEND_AT: produce.append_at,
            RequestType.ALTER_TOPIC: changes.alter_topic,
            RequestType.DELETE_RECORDS: changes.delete_records,
            RequestType.TRANSACTIONS: TransactionsHandler(self).transactions,
        }
        handles_runs: dict[RequestType, HandleRun] = {RequestType.PRODUCE: produce.produce_run}
        self._handlers = {
            int(request_type): (
                handle,
                handles_runs.get(request_type),
                self.metrics_of(request_type),
            )
            for request_type, handle in handles.items()
        }

    def metrics_of(self, request_type: RequestType) -> RequestMetrics:
        """Return the metrics of a request type."""
        return self.metrics.requests("native", request_type.name.lower())

    def session(self, connection: Connection) -> NativeSession:
        """Return the handler of a new connection's frames."""
        return NativeSession(self._handlers, self.monotonic)
