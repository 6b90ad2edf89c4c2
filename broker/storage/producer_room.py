"""ProducerRoom: how many idempotent producers all logs of a broker may remember together.

`producers_per_partition_max` alone would let a client that makes up ids fill every partition. When
all room is taken, the log that remembers most idle producers forgets half of them, those whose last
batches are oldest, so a partition with few keeps what it has. A look at all logs then comes with at
least half of an average log's producers gone.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.storage.producer_state import ProducerState


class ProducerRoom:
    """Shared by the logs of all data directories; on the event loop's thread."""

    __slots__ = ("_states", "count", "producers_max")

    def __init__(self, producers_max: int) -> None:
        self.producers_max = producers_max
        self.count = 0
        """Of all producers that are remembered."""
        self._states: dict[ProducerState, None] = {}

    def join(self, state: ProducerState) -> None:
        """Count a log's producers from now on; some are forgotten if there is no room for all."""
        state.room = self
        self._states[state] = None
        self.count += len(state.producers)
        while self.count > self.producers_max and self._forget_some():
            pass

    def leave(self, state: ProducerState) -> None:
        """The log is closed."""
        if state in self._states:
            del self._states[state]
            self.count -= len(state.producers)
            state.room = UNBOUNDED

    def make_room(self) -> None:
        """Have some producers forgotten, if there is no room for one more and some are idle."""
        if self.count >= self.producers_max:
            self._forget_some()

    @property
    def is_full(self) -> bool:
        """Whether there is no room, and will be none by forgetting who is idle."""
        return self.count >= self.producers_max and not any(
            state.idle_count for state in self._states
        )

    def _forget_some(self) -> bool:
        most = max(self._states, key=lambda state: state.idle_count, default=None)
        if most is None or not most.idle_count:
            return False
        most.forget_idle((most.idle_count + 1) // 2)
        return True


UNBOUNDED: Final = ProducerRoom(sys.maxsize)
"""For a state that is no open log's, or not yet; its count says nothing."""
