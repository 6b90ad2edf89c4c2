"""ProtocolApi: what both protocols' sides of a broker have for their handlers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.config import LimitsConfig
    from broker.metrics import Metrics
    from broker.partition_manager import PartitionManager
    from broker.requests.step_runner import StepRunner


class ProtocolApi(Protocol):
    """`NativeApi` and `KafkaApi`."""

    manager: PartitionManager
    runner: StepRunner
    clock: Clock
    monotonic: Callable[[], float]
    limits: LimitsConfig
    metrics: Metrics
