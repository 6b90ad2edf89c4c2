"""Health: whether the broker serves clients, in the words of /readyz, systemd and the log."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence


class State(enum.StrEnum):
    """Where the daemon is in its life."""

    STARTING = "starting"
    RECOVERING = "recovering"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


class Health:
    """The state, why it is so, and what is wrong though clients are served."""

    def __init__(self) -> None:
        self.state = State.STARTING
        self.reason = "the configuration is being read"
        self.degraded: Callable[[], Sequence[str]] = tuple
        """Says what does not work while the rest does: a missing directory, damaged bytes."""

    def enter(self, state: State, reason: str = "") -> None:
        """Note a new state. FAILED is never left: the process is about to end."""
        if self.state is not State.FAILED:
            self.state, self.reason = state, reason

    @property
    def is_ready(self) -> bool:
        return self.state is State.READY

    def report(self) -> dict[str, object]:
        """Return the body of /readyz."""
        answer: dict[str, object] = {"status": str(self.state)}
        if self.reason:
            answer["reason"] = self.reason
        degraded = list(self.degraded()) if self.is_ready else []
        if degraded:
            answer["degraded"] = degraded
        return answer
