"""TopicLabels: which topics have a metric label of their own, and which are summed.

Labels are for a bounded number of topics, first come, first served, and go with their topic. What
is summed under `_other` never goes down, also when a topic of it is deleted: Prometheus would take
that for a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OTHER: Final = "_other"


class TopicLabels:
    """Gives out labels and keeps the sums of topics without one."""

    def __init__(self, labels_max: int) -> None:
        self._labels_max = labels_max
        self._labelled: set[str] = set()
        self._summed: dict[str, tuple[int, ...]] = {}
        self._of_deleted: tuple[int, ...] = ()

    def is_labelled(self, topic: str) -> bool:
        return topic in self._labelled

    def by_label(self, counts: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Return `counts` (of every topic there is) by label instead of by topic."""
        self._labelled &= counts.keys()
        for topic in self._summed.keys() - counts.keys():
            self._of_deleted = _sum(self._of_deleted, self._summed.pop(topic))
        labelled: dict[str, tuple[int, ...]] = {}
        other = self._of_deleted
        for topic, values in counts.items():
            if self._takes(topic):
                labelled[topic] = values
            else:
                before = self._summed.get(topic, ())
                if any(now < then for now, then in zip(values, before, strict=False)):
                    self._of_deleted = _sum(self._of_deleted, before)  # deleted and made again
                    other = _sum(other, before)
                self._summed[topic] = values
                other = _sum(other, values)
        if other:
            labelled[OTHER] = other
        return labelled

    def _takes(self, topic: str) -> bool:
        if topic in self._labelled:
            return True
        if topic in self._summed or topic == OTHER or len(self._labelled) >= self._labels_max:
            return False
        self._labelled.add(topic)
        return True


def _sum(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    if not first or not second:
        return first or second
    return tuple(one + other for one, other in zip(first, second, strict=True))
