"""FoundBytes: how much a fetch of many partitions has found, kept up entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.partition import Partition
    from broker.requests.fetch_sending import Found


class FoundBytes:
    """The bytes found for each entry, and together; entries are known by their place."""

    __slots__ = ("_places", "_sizes", "total")

    def __init__(self) -> None:
        self.total = 0
        self._sizes: dict[int, int] = {}
        self._places: dict[Partition, list[int]] = {}

    def __len__(self) -> int:
        return len(self._sizes)

    def note(self, place: int, found: Found) -> None:
        """Take what was found for an entry in the place of what was found there before."""
        before = self._sizes.get(place)
        if before is None:
            before = 0
            if found.partition is not None:
                self._places.setdefault(found.partition, []).append(place)
        size_bytes = self._sizes[place] = found.size_bytes
        self.total += size_bytes - before

    def places_of(self, partition: Partition) -> Sequence[int]:
        """Return the places of the entries of `partition`; those only that were noted."""
        return self._places.get(partition, ())
