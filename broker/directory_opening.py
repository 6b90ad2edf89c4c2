"""DirectoryOpening: opens the data directories at start, without holding up the event loop.

In three steps: a thread locks and plans; what has to be checked is recovered, in worker processes
if it is much (`start_recovery`); a thread loads all logs. Meanwhile nothing else is done with the
directories, and the loop says over HTTP how far it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID, uuid4

import structlog

from broker.data_directories import DataDirectories
from broker.storage.index_cache import IndexCache
from broker.storage.log_directory import LogDirectory
from broker.storage.os_disk import OsDisk
from broker.storage.producer_room import ProducerRoom
from protocol.errors import StorageError
from protocol.stored.file_names import META_PROPERTIES

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.start_recovery import StartRecovery
    from broker.storage.disk import Disk
    from broker.storage.log_config import LogConfig
    from broker.storage.log_plan import RecoveredFacts
    from broker.storage.storage_options import StorageOptions

_log = structlog.get_logger("tidelog.directories")

T = TypeVar("T")


class DirectoryOpening:
    """How data directories are opened: all of them share cluster, topic ids and index cache."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        options: StorageOptions,
        *,
        node_id: int,
        config_of: Callable[[str], LogConfig],
        topic_ids: Mapping[str, UUID],
        executor: Executor,
        recovery: StartRecovery | None = None,
    ) -> None:
        """Args:
        config_of: Gives the settings of a topic.
        topic_ids: Of all topics in the registry, those being deleted too: a directory that does
            not say which id it has (a crash tore that file) is the registered topic's.
        executor: Has a thread that may wait for the disk.
        recovery: What recovers many logs at once; without it they are recovered one by one.
        """
        self._disk, self._clock, self._options = disk, clock, options
        self._node_id, self._config_of = node_id, config_of
        self._topic_ids = dict(topic_ids)
        self._executor, self._recovery = executor, recovery
        self._cluster_id: str | None = None
        self._new: set[Path] = set()
        self._index_cache = IndexCache(options.index_cache_bytes)
        self._producer_room = ProducerRoom(options.producers_max)

    async def open(self, paths: Sequence[Path], missing: Collection[int]) -> DataDirectories:
        """Open all directories but the missing ones; new ones are made.

        Raises:
            DataDirectoryError: one cannot be made, is locked, or of a newer format.
            OSError: the disk refused; a failed sync among others. Nothing stays open.
        """
        planning = partial(DataDirectories.open, self._disk, paths, missing, self._begin)
        directories = await self._in_thread(planning, close=_close_all)
        try:
            recovered = await self._recover(directories.present)
            await self._in_thread(partial(self._load, directories.present, recovered))
        except BaseException:
            _close_all(directories)
            raise
        return directories

    async def _in_thread(
        self, call: Callable[[], T], *, close: Callable[[T], object] | None = None
    ) -> T:
        """Run a call in the thread; who is cancelled waits for it, for it cannot be stopped.

        Args:
            close: Is given the result that nobody takes any more.
        """
        running = asyncio.get_running_loop().run_in_executor(self._executor, call)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            result = await running
            if close is not None:
                close(result)
            raise

    def _begin(self, path: Path) -> LogDirectory:
        if not self._disk.exists(path / META_PROPERTIES):
            self._new.add(path)
        directory = LogDirectory.open(
            self._disk,
            path,
            self._clock,
            self._config_of,
            self._options,
            node_id=self._node_id,
            cluster_id=self._cluster_id,
            topic_id_of=lambda topic: self._topic_ids.setdefault(topic, uuid4()),
            index_cache=self._index_cache,
            producer_room=self._producer_room,
            load=False,
        )
        self._cluster_id = directory.properties.cluster_id
        return directory

    async def _recover(
        self, directories: Sequence[LogDirectory]
    ) -> Mapping[Path, RecoveredFacts | StorageError]:
        if self._recovery is None or not isinstance(self._disk, OsDisk):
            return {}  # another disk is not one that a worker could open
        plans = [plan for directory in directories for plan in directory.plans.values()]
        return await self._recovery.run(plans, self._options)

    def _load(
        self,
        directories: Sequence[LogDirectory],
        recovered: Mapping[Path, RecoveredFacts | StorageError],
    ) -> None:
        """In the thread."""
        for directory in directories:
            directory.load(recovered)
            summary = directory.summary
            _log.info(
                "data directory loaded",
                path=str(directory.path),
                new=directory.path in self._new,
                clean=summary.is_clean,
                partitions=summary.logs,
                checked_bytes=summary.checked_bytes,
                cut_bytes=summary.cut_bytes,
                seconds=round(summary.seconds, 3),
            )


def _close_all(directories: DataDirectories) -> None:
    for directory in directories.present:
        directory.close(clean=False)
