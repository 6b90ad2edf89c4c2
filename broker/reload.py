"""Reload: what of a new configuration can be taken over by a running daemon.

The log's level and form, the bounds of new connections, and the defaults of topics can; sockets,
directories and caches are made once.
"""

from __future__ import annotations

from typing import Final

import msgspec

from broker import config_keys
from broker.config import Config
from broker.config_sources import value_at

RELOADABLE_TABLES: Final = ("log", "topics")
RELOADABLE_LIMITS: Final = frozenset(
    f"limits.{name}"
    for name in (
        "frame_bytes_max",
        "connections_max",
        "connections_per_address_max",
        "requests_in_flight_max",
        "write_buffer_bytes_max",
        "idle_timeout_ms",
        "frame_timeout_ms",
        "requests_per_second_max",
    )
)


class Changes(msgspec.Struct, frozen=True):
    """Key paths whose values differ."""

    taken_over: tuple[str, ...]
    needing_restart: tuple[str, ...]


def is_reloadable(path: str) -> bool:
    """Whether a running daemon can take over a change of the key at `path`."""
    return path.partition(".")[0] in RELOADABLE_TABLES or path in RELOADABLE_LIMITS


def changes_between(old: Config, new: Config) -> Changes:
    """Return what differs, by whether it can be taken over."""
    changed = [
        path for path in config_keys.all_keys() if value_at(old, path) != value_at(new, path)
    ]
    return Changes(
        taken_over=tuple(path for path in changed if is_reloadable(path)),
        needing_restart=tuple(path for path in changed if not is_reloadable(path)),
    )
