"""BrokerMachine: a disk and a registry that outlive brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.fake_disk import FakeDisk
from tests.support.native_broker import NativeBroker


class Machine:
    """A disk and a registry that outlive brokers."""

    def __init__(self, registry: Path) -> None:
        self.disk, self.registry = FakeDisk(), registry

    def broker(self, **options: Any) -> NativeBroker:
        return NativeBroker(disk=self.disk, registry=self.registry, **options)

    def names(self, directory: str = "/data") -> list[str]:
        """Partition directories, those being deleted too."""
        names = self.disk.list_directory(Path(directory))
        return [name for name in names if self.disk.is_directory(Path(directory) / name)]
