"""ArchiveResult: what an archive did, or would do."""

from __future__ import annotations

import msgspec

from tidelog.lake.entry import Change, DataFile, Gap
from tidelog.spark.jobs.archive_source import Piece

__all__ = ["ArchiveResult", "ArchivedPartition"]


class ArchivedPartition(msgspec.Struct, kw_only=True):
    """What a run did for one partition; of a dry run: what it would do."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    files: int = 0
    records: int = 0
    size_bytes: int = 0
    lost_offsets: int = 0


class ArchiveResult(msgspec.Struct, kw_only=True):
    """What a run did."""

    is_dry_run: bool
    partitions: list[ArchivedPartition] = []
    merged_files: int = 0
    """Small files that are no more,"""
    made_files: int = 0
    """and the files that have their records now."""

    @property
    def records(self) -> int:
        return sum(each.records for each in self.partitions)

    @property
    def size_bytes(self) -> int:
        """Of Parquet."""
        return sum(each.size_bytes for each in self.partitions)

    @property
    def lost_offsets(self) -> int:
        return sum(each.lost_offsets for each in self.partitions)

    def count(self, topic: str, change: Change) -> None:
        """Add what was committed."""
        pieces: list[DataFile | Gap] = [*change.add, *change.gaps]
        for piece in sorted(pieces, key=lambda each: (each.partition, each.start_offset)):
            row = self._row(topic, piece.partition, piece.start_offset)
            row.end_offset = piece.end_offset
            if isinstance(piece, DataFile):
                row.files += 1
                row.records += piece.rows
                row.size_bytes += piece.size_bytes
            elif piece.reason == "lost":
                row.lost_offsets += piece.end_offset - piece.start_offset

    def count_planned(self, piece: Piece) -> None:
        """Add what would be archived."""
        row = self._row(*piece.partition, piece.start)
        row.end_offset = piece.end
        row.files += 1

    def _row(self, topic: str, partition: int, start_offset: int) -> ArchivedPartition:
        for row in self.partitions:
            if (row.topic, row.partition) == (topic, partition):
                return row
        row = ArchivedPartition(
            topic=topic, partition=partition, start_offset=start_offset, end_offset=start_offset
        )
        self.partitions.append(row)
        return row

    def rows(self) -> list[dict[str, object]]:
        """Return a row a partition; of a dry run: without what only writing shows."""
        rows: list[dict[str, object]] = [msgspec.to_builtins(each) for each in self.partitions]
        for row in rows if self.is_dry_run else ():
            for name in ("files", "records", "size_bytes", "lost_offsets"):
                del row[name]
        return rows

    def sentence(self) -> str:
        would = "would be " if self.is_dry_run else ""
        parts = []
        if self.partitions:
            offsets = sum(each.end_offset - each.start_offset for each in self.partitions)
            what = f"{offsets:,} offsets" if self.is_dry_run else f"{self.records:,} records"
            parts.append(f"{what} of {_counted(len(self.partitions), 'partition')} {would}archived")
        if self.merged_files:
            small = _counted(self.merged_files, "small file")
            parts.append(f"{small} {would}merged into {self.made_files:,}")
        return "; ".join(parts) or "nothing new to archive, and nothing to merge"

    @property
    def is_ok(self) -> bool:
        return not self.lost_offsets


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
