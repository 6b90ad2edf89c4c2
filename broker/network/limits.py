"""ConnectionLimits and Admission: how much of the broker one client, and all of them, may take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import msgspec

from broker.network.buffer_pool import BufferPool
from broker.network.quota import RequestQuota
from protocol import limits


class ClosedConnections(Protocol):
    """Whoever counts the connections that ended, by reason."""

    def connection_closed(self, reason: str) -> None: ...


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the sockets of one listener; every one is finite."""

    frame_bytes_max: int = limits.FRAME_BYTES_MAX
    connections_max: int = 10_000
    connections_per_address_max: int = 2_000
    requests_in_flight_max: int = 1_000
    """Requests of one connection that wait for their answers; then its reading stops."""
    in_flight_bytes_max: int = 512 * 1024 * 1024
    """Bytes of frames being received, over all connections."""
    write_buffer_bytes_max: int = 4 * 1024 * 1024
    """Answers of one connection that its client has not read; then its requests wait."""
    idle_timeout_s: float = 600.0
    frame_timeout_s: float = 30.0
    """How long a frame may take from its first byte on, beyond its size at `FRAME_RATE_MIN`."""
    requests_per_second_max: float = 0.0
    """Per client address; 0 is no quota. Over it, reading pauses: requests wait, none is lost."""


class Admission:
    """What all listeners' connections share: counts, buffers, quotas, and a coarse clock."""

    def __init__(
        self,
        connection_limits: ConnectionLimits,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits, self.monotonic = connection_limits, monotonic
        self.buffers = BufferPool(connection_limits.in_flight_bytes_max)
        self.now_s = 0.0
        """Monotonic seconds, renewed about once a second: enough for idle times, and free."""
        self.is_draining = False
        self._per_address: Counter[str] = Counter()
        self._quotas: dict[str, RequestQuota] = {}
        self.connections = 0

    def admit(self, address: str) -> str | None:
        """Count a new connection in; return None, or the reason why it must be closed."""
        if self.is_draining:
            return "draining"
        if self.connections >= self.limits.connections_max:
            return "too_many_connections"
        if self._per_address[address] >= self.limits.connections_per_address_max:
            return "too_many_connections_from_address"
        self.connections += 1
        self._per_address[address] += 1
        return None

    def leave(self, address: str) -> None:
        """Count an admitted connection out, on every way that it may end."""
        self.connections -= 1
        self._per_address[address] -= 1
        if self._per_address[address] <= 0:
            del self._per_address[address]

    def quota(self, address: str) -> RequestQuota | None:
        """Return the request quota that the connections of an address share, if there is one."""
        rate = self.limits.requests_per_second_max
        if rate <= 0:
            return None
        quota = self._quotas.get(address)
        if quota is None:
            quota = self._quotas[address] = RequestQuota(rate)
        return quota

    def forget_quotas(self, now_s: float) -> None:
        """Drop what is not needed any more; a client gets no new burst by connecting anew."""
        for address, quota in list(self._quotas.items()):
            if address not in self._per_address and quota.is_whole(now_s):
                del self._quotas[address]
