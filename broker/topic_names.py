"""TopicNames: which names are taken by topics that a new one would be mistaken for.

Two names that differ only in where they have `.` and where `_` are one name in the metrics of
Apache Kafka, which therefore refuses the second of them. So do we: whoever takes a data directory
along must be able to make its topics there. What is there already, adopted or made by an older
version, stays and works.
"""

from __future__ import annotations

from protocol.internal_topics import INTERNAL_TOPICS, is_internal


def unified(name: str) -> str:
    """Return what names that would be mistaken for `name` have in common with it."""
    return name.replace(".", "_")


class TopicNames:
    """Of the topics of one broker, and of its internal ones: those may yet have to be made."""

    __slots__ = ("_by_unified",)

    def __init__(self) -> None:
        self._by_unified: dict[str, tuple[str, ...]] = {}
        for name in INTERNAL_TOPICS:
            self.add(name.decode("ascii"))

    def add(self, name: str) -> None:
        """Take a name; it may have been taken."""
        self._by_unified[unified(name)] = (*self._without(name), name)

    def discard(self, name: str) -> None:
        """Give a name up; an internal one stays taken."""
        if is_internal(name):
            return
        others = self._without(name)
        if others:
            self._by_unified[unified(name)] = others
        else:
            self._by_unified.pop(unified(name), None)

    def mistakable(self, name: str) -> str | None:
        """Return another name that is taken and that `name` would be mistaken for, if any."""
        return next(iter(self._without(name)), None)

    def _without(self, name: str) -> tuple[str, ...]:
        return tuple(each for each in self._by_unified.get(unified(name), ()) if each != name)
