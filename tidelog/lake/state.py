"""State: what a lake's log adds up to: which files it has, and up to where each partition goes."""

from __future__ import annotations

import msgspec

from tidelog.lake.entry import Change, DataFile, Entry, Gap
from tidelog.lake.errors import ConflictError

__all__ = ["State"]


class State(msgspec.Struct, kw_only=True):
    """The lake after the commit `sequence`."""

    sequence: int = -1
    """-1: nothing is committed."""
    files: dict[str, DataFile] = {}
    """By path; in the order of their commits."""
    gaps: list[Gap] = []
    ends: dict[int, int] = {}
    """By partition: the offset after the last one that is in the lake or in a gap."""

    @property
    def rows(self) -> int:
        """Records in the lake."""
        return sum(file.rows for file in self.files.values())

    def pieces(self, partition: int) -> list[DataFile | Gap]:
        """Return a partition's files and gaps by offset."""
        every: list[DataFile | Gap] = [*self.files.values(), *self.gaps]
        found = [piece for piece in every if piece.partition == partition]
        return sorted(found, key=lambda piece: piece.start_offset)

    def check(self, change: Change) -> None:
        """Raise ConflictError unless the change fits: what it adds begins where a partition ends.

        Of a compaction: each added file stands for removed files that are next to each other.
        """
        missing = [path for path in change.remove if path not in self.files]
        if missing:
            raise ConflictError(f"{missing[0]} is in the lake no more")
        if change.remove:
            self._check_compaction(change)
            return
        ends = dict(self.ends)
        for piece in _in_order(change):
            end = ends.get(piece.partition, piece.start_offset)
            if piece.start_offset != end or piece.end_offset <= end:
                raise ConflictError(
                    f"partition {piece.partition} goes up to offset {end}: offsets "
                    f"{piece.start_offset} to {piece.end_offset - 1} do not go on from there"
                )
            ends[piece.partition] = piece.end_offset

    def _check_compaction(self, change: Change) -> None:
        removed = {
            (file.partition, file.start_offset): file
            for file in (self.files[path] for path in change.remove)
        }
        for added in change.add:
            offset, rows = added.start_offset, 0
            while offset < added.end_offset:
                file = removed.pop((added.partition, offset), None)
                if file is None:
                    raise ConflictError(f"{added.path} would cover more than what is removed")
                offset, rows = file.end_offset, rows + file.rows
            if (offset, rows) != (added.end_offset, added.rows):
                raise ConflictError(f"{added.path} does not hold what the removed files hold")
        if removed or change.gaps:
            raise ConflictError("a compaction takes no record away")

    def apply(self, entry: Entry) -> None:
        """Go on by one commit, which was checked when it was made."""
        change = entry.change
        self.sequence = entry.sequence
        for path in change.remove:
            del self.files[path]
        for piece in _in_order(change):
            if isinstance(piece, DataFile):
                self.files[piece.path] = piece
            else:
                self.gaps.append(piece)
            self.ends[piece.partition] = max(
                piece.end_offset, self.ends.get(piece.partition, piece.end_offset)
            )


def _in_order(change: Change) -> list[DataFile | Gap]:
    return sorted(
        (*change.add, *change.gaps), key=lambda piece: (piece.partition, piece.start_offset)
    )
