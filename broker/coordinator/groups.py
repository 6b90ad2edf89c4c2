"""Groups: every group of this broker, by its id."""

from __future__ import annotations

from collections.abc import Iterator

from broker.coordinator.group import Group, GroupState
from broker.coordinator.kept_bytes import KeptBytes

__all__ = ["Groups"]


class Groups:
    """The groups; not more than `groups_max`, and not larger in all than `kept_bytes_max`."""

    def __init__(self, groups_max: int, kept_bytes_max: int) -> None:
        self._groups: dict[str, Group] = {}
        self._groups_max = groups_max
        self.kept = KeptBytes(kept_bytes_max)

    def get(self, group_id: str) -> Group | None:
        """Return a group, if there is one."""
        return self._groups.get(group_id)

    def get_or_create(self, group_id: str, now_ms: int) -> Group | None:
        """Return a group, an empty one if need be; None: there are too many."""
        group = self._groups.get(group_id)
        if group is None and len(self._groups) < self._groups_max:
            new = Group(group_id, now_ms)
            if self.kept.has_room(new.kept.bytes):
                group = new
                self.add(group)
        return group

    def add(self, group: Group) -> None:
        """Take in a group; bounds are for clients, not for what is in the log."""
        self._groups[group.group_id] = group
        group.kept.join(self.kept)

    def remove(self, group: Group) -> None:
        """Forget a group; who still holds it finds it dead."""
        group.state = GroupState.DEAD
        for timer in group.pending.values():
            timer.cancel()
        group.pending.clear()
        group.kept.join(None)
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]

    def drop_if_unused(self, group: Group) -> None:
        """Forget a group that came to nothing, and that the log knows nothing of."""
        if group.can_be_forgotten and not group.is_stored:
            self.remove(group)

    def __iter__(self) -> Iterator[Group]:
        """Every group there is now."""
        return iter(list(self._groups.values()))

    def __len__(self) -> int:
        return len(self._groups)
