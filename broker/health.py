"""Health: whether the broker serves clients, in the words of /readyz, systemd and the log."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Final

PROBLEMS_SHOWN_MAX: Final = 100
"""A lost disk is thousands of partitions; who reads the answer needs the first of them."""


class State(enum.StrEnum):
    """Where the daemon is in its life."""

    STARTING = "starting"
    RECOVERING = "recovering"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


class Health:
    """The state, why it is so, and what is wrong though clients are served. On the loop's thread.

    What is wrong comes from two sides: whoever meets something that passes says `degraded`, and
    `mended` when it is over; whoever can be asked at any time is given to `watch`.
    """

    def __init__(self) -> None:
        self.state = State.STARTING
        self.reason = "the configuration is being read"
        self._problems: dict[str, None] = {}
        self._watched: list[Callable[[], Sequence[str]]] = []

    def enter(self, state: State, reason: str = "") -> None:
        """Note a new state. FAILED is never left: the process is about to end."""
        if self.state is not State.FAILED:
            self.state, self.reason = state, reason

    def recovering(self, progress: str) -> None:
        """Say how far the start has come; /readyz is 503 with that text. Over once it is ready."""
        if self.state in (State.STARTING, State.RECOVERING):
            self.enter(State.RECOVERING, progress)

    def failed(self, reason: str) -> None:
        """Say that clients cannot be served any more; /readyz is 503 from now on."""
        self.enter(State.FAILED, reason)

    def degraded(self, problem: str) -> None:
        """Note what does not work while the rest does, in a sentence: /readyz is 200 and says it.

        Saying the same twice is saying it once.
        """
        self._problems[problem] = None

    def mended(self, problem: str) -> None:
        """Take back a `degraded` of the same words; that it was not said is no error."""
        self._problems.pop(problem, None)

    def watch(self, problems: Callable[[], Sequence[str]]) -> None:
        """Ask `problems`, each time that somebody looks, what does not work while the rest does."""
        self._watched.append(problems)

    def problems(self) -> list[str]:
        """Return all that does not work while the rest does, a sentence each."""
        watched = [problem for source in self._watched for problem in source()]
        return list(dict.fromkeys([*self._problems, *watched]))

    @property
    def is_ready(self) -> bool:
        return self.state is State.READY

    def report(self) -> dict[str, object]:
        """Return the body of /readyz."""
        answer: dict[str, object] = {"status": str(self.state)}
        if self.reason:
            answer["reason"] = self.reason
        problems = self.problems() if self.is_ready else []
        if problems:
            shown = problems[:PROBLEMS_SHOWN_MAX]
            if len(problems) > len(shown):
                shown.append(f"and {len(problems) - len(shown)} more")
            answer["degraded"] = shown
        return answer
