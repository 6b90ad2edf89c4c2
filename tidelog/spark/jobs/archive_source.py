"""ArchiveSource: where records to archive come from: the files of a data directory, or a broker.

It is pickled into the tasks, which read records with it; the driver asks it what there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, NoReturn, Protocol

import msgspec
import pyarrow as pa

from protocol.errors import BrokerError
from protocol.identifiers import TopicPartition
from tidelog.client import Client
from tidelog.segments.errors import DataLossError, OptionError
from tidelog.segments.location import locate, without_secrets
from tidelog.segments.log_files import PartitionFiles, list_partitions
from tidelog.segments.plan import Split, bounds, plan
from tidelog.segments.read_options import Isolation, ReadOptions
from tidelog.segments.reader import read_split
from tidelog.spark.broker_link import BrokerLink
from tidelog.spark.offset_ranges import Bounds, OffsetRange
from tidelog.spark.own_topics import is_for_users
from tidelog.spark.range_reader import RangeReader

__all__ = ["ArchiveSource", "BrokerSource", "DirectorySource", "Piece"]

LOOKUPS_AT_ONCE: Final = 8
"""Of partitions: each is headers of a log's end, which are waited for."""


class Piece(NamedTuple):
    """What one task archives: offsets of one partition, the end not among them."""

    partition: TopicPartition
    start: int
    end: int
    splits: tuple[Split, ...] = ()
    """Of a data directory: where the records are; none if all of them are gone by compaction."""


class ArchiveSource(Protocol):
    """Somewhere that topics are."""

    isolation: Isolation
    """`read_committed`: up to the last stable offset, and without aborted transactions."""

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        """Return what there is of the topics that are to be archived."""

    def pieces(
        self, partition: TopicPartition, start: int, end: int, size_bytes: int
    ) -> list[Piece]:
        """Return pieces of about that size that follow one another from `start` to `end`."""

    def batches(self, piece: Piece, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """Yield the records of a piece. DataLossError if they are not there any more."""


class DirectorySource:
    """A data directory, its broker running or not: what is below the high watermark of the files.

    Args:
        path: Of this machine, or a URL; tasks must find the same there.
        topics: None: all that are for users.
    """

    def __init__(
        self, path: str, topics: Sequence[str] | None, isolation: Isolation = "read_committed"
    ) -> None:
        self._path, self._topics, self.isolation = path, topics, isolation
        self._files: dict[TopicPartition, PartitionFiles] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # Tasks have no use for all the files.
        return DirectorySource, (self._path, self._topics, self.isolation)

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        location = locate(self._path)
        found = list_partitions(location)
        there = {files.topic for files in found}
        missing = [topic for topic in self._topics or () if topic not in there]
        if missing:
            raise OptionError(
                f"{without_secrets(self._path)} has no topic {', '.join(missing)}; it has "
                f"{', '.join(sorted(there))}"
            )
        self._files = {
            TopicPartition(files.topic, files.partition): files
            for files in found
            if _is_wanted(files.topic, self._topics)
        }
        look = partial(bounds, location, isolation=self.isolation)
        with ThreadPoolExecutor(LOOKUPS_AT_ONCE) as pool:
            looked = pool.map(look, self._files.values())
            return {key: Bounds(*each) for key, each in zip(self._files, looked, strict=True)}

    def pieces(
        self, partition: TopicPartition, start: int, end: int, size_bytes: int
    ) -> list[Piece]:
        files = self._files[partition]
        splits = plan(locate(self._path), files, start, end, split_bytes=size_bytes)
        groups: list[list[Split]] = [[]]
        group_bytes = 0
        for split in splits:
            split_bytes = split.end_position - split.start_position
            if groups[-1] and group_bytes + split_bytes > size_bytes:
                groups.append([])
                group_bytes = 0
            groups[-1].append(split)
            group_bytes += split_bytes
        cuts = [start, *(group[0].start_offset for group in groups[1:]), end]
        return [
            Piece(partition, begin, stop, tuple(group))
            for (begin, stop), group in zip(pairwise(cuts), groups, strict=True)
        ]

    def batches(self, piece: Piece, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        location = locate(self._path)
        options = msgspec.structs.replace(options, isolation=self.isolation)
        for split in piece.splits:
            yield from read_split(location, split, options)


class BrokerSource:
    """A running broker, over its native protocol.

    Args:
        address: As executors reach it.
        topics: None: all that are for users.
    """

    def __init__(
        self, address: str, topics: Sequence[str] | None, isolation: Isolation = "read_committed"
    ) -> None:
        self._address, self._topics, self.isolation = address, topics, isolation
        self._record_bytes: dict[TopicPartition, float] = {}

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        if self._record_bytes:  # it has answered before: if it does not now, it is restarted
            with BrokerLink(self._address) as link:
                return link.ask(self._bounds)
        with Client(self._address) as client:
            return self._bounds(client)

    def _bounds(self, client: Client) -> Mapping[TopicPartition, Bounds]:
        found = {}
        for topic in client.topics(*(self._topics or ())):
            if topic.error:
                raise BrokerError(topic.error, topic.name)
            for each in topic.partitions if _is_wanted(topic.name, self._topics) else ():
                key = TopicPartition(topic.name, each.partition)
                if each.error:
                    raise BrokerError(each.error, str(key))
                start, end = each.log_start_offset, each.high_watermark
                self._record_bytes[key] = max(each.size_bytes / max(end - start, 1), 1.0)
                if self.isolation == "read_committed":
                    end = min(end, client.transactions(*key).last_stable_offset)
                found[key] = Bounds(start, max(start, end))
        return found

    def pieces(
        self, partition: TopicPartition, start: int, end: int, size_bytes: int
    ) -> list[Piece]:
        step = max(int(size_bytes / self._record_bytes[partition]), 1)
        cuts = [*range(start, end, step), end]
        return [Piece(partition, begin, stop) for begin, stop in pairwise(cuts)]

    def batches(self, piece: Piece, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        wanted = OffsetRange(piece.partition, piece.start, piece.end)
        options = msgspec.structs.replace(options, isolation=self.isolation)
        with BrokerLink(self._address) as link:
            yield from RangeReader(link, wanted, options, _lose).batches()


def _lose(what: str) -> NoReturn:
    raise DataLossError(what)


def _is_wanted(topic: str, topics: Sequence[str] | None) -> bool:
    return is_for_users(topic) if topics is None else topic in topics
