"""KafkaApi: what the handlers of the Kafka protocol share, and the table of APIs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.clock import Clock, SystemClock
from broker.kafka_api.api_versions import ApiVersionsHandler
from broker.kafka_api.call import Call
from broker.kafka_api.session import KafkaSession
from broker.metrics import Metrics, RequestMetrics
from broker.native_api.step_runner import StepRunner
from broker.network.answers import PendingResponse
from protocol.identifiers import Buffer
from protocol.kafka.apis import APIS, Api, ApiKey
from protocol.kafka.message import Struct

if TYPE_CHECKING:
    from broker.config import Config
    from broker.network.connection import Connection
    from broker.partition_manager import PartitionManager

HandlerAnswer: TypeAlias = Struct | PendingResponse | list[Buffer] | None
"""A message to be encoded; one later; one that is encoded already; or none (acks 0)."""
Handle: TypeAlias = Callable[[Any, Call], HandlerAnswer]


class KafkaApi:
    """The Kafka protocol's side of one broker; `session` is what a listener needs.

    Attributes:
        node_id: Of this broker, the only one that clients are told of.
        advertised: Host and port that clients are told.
    """

    def __init__(
        self,
        manager: PartitionManager,
        *,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        executor: Executor,
        metrics: Metrics,
        maps_slices: bool,
        cluster_id: str,
        node_id: int,
        advertised: tuple[str, int],
    ) -> None:
        """Args as `NativeApi`'s."""
        self.manager, self.config, self.loop, self.clock = manager, config, loop, clock
        self.limits, self.metrics, self.maps_slices = config.limits, metrics, maps_slices
        self.cluster_id, self.node_id, self.advertised = cluster_id, node_id, advertised
        self.monotonic = time.monotonic if isinstance(clock, SystemClock) else clock.monotonic
        self.runner = StepRunner(loop, executor, self.monotonic)
        self.api_versions = ApiVersionsHandler(self)
        self.handlers: dict[int, tuple[Api, Handle, RequestMetrics]] = {}
        self._serve({ApiKey.API_VERSIONS: self.api_versions.api_versions})

    def _serve(self, handles: dict[ApiKey, Handle]) -> None:
        """Advertise and handle APIs."""
        for key, handle in handles.items():
            metrics = self.metrics.requests("kafka", key.name.lower())
            self.handlers[key] = APIS[key], handle, metrics

    def session(self, connection: Connection) -> KafkaSession:
        """Return the handler of a new connection's frames."""
        return KafkaSession(self)
