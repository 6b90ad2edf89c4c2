"""A disk with groups on it, and brokers that come and go."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.support.fake_disk import FakeDisk
from tests.support.group_broker import GroupBroker


class Machine:
    """A disk and a registry that outlive brokers."""

    def __init__(self, tmp_path: Path) -> None:
        self.disk, self._registry = FakeDisk(), tmp_path / "registry.sqlite"

    def broker(self, **options) -> GroupBroker:
        broker = GroupBroker(disk=self.disk, registry=self._registry, **options)
        broker.open()
        return broker

    def loaded(self, **options) -> GroupBroker:
        broker = self.broker(**options)
        broker.kafka.coordinator.begin()
        broker.loop.settle()
        return broker


def end(broker: GroupBroker, how: str, seed: int = 0) -> None:
    """Stop it, kill it, or cut the power."""
    if how == "stop":
        broker.close()
        return
    broker.kill()
    if how == "power cut":
        broker.disk.crash(Random(seed))
    else:
        broker.disk.kill()
