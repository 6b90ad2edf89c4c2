"""Connection limits: what the network layer must know of the configuration's [limits]."""

from __future__ import annotations

from broker.config import Config
from broker.network.limits import ConnectionLimits


def connection_limits(config: Config) -> ConnectionLimits:
    """Return the bounds of a listener's sockets."""
    limits = config.limits
    return ConnectionLimits(
        frame_bytes_max=limits.frame_bytes_max,
        connections_max=limits.connections_max,
        connections_per_address_max=limits.connections_per_address_max,
        requests_in_flight_max=limits.requests_in_flight_max,
        in_flight_bytes_max=limits.in_flight_bytes_max,
        write_buffer_bytes_max=limits.write_buffer_bytes_max,
        idle_timeout_s=limits.idle_timeout_ms / 1000,
        frame_timeout_s=limits.frame_timeout_ms / 1000,
        requests_per_second_max=limits.requests_per_second_max,
    )
