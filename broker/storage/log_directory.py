"""LogDirectory: every open log of one data directory, and the files beside them.

The order of a start: lock; `meta.properties` is checked; the clean marker is removed and that is
synced, before anything is loaded, so that a crash while loading is an unclean stop; logs are
planned (`directory_plan`), recovered, elsewhere or on the way, and loaded, and all they keep is
synced; then durable offsets and checkpoints are written anew.
The order of a stop: logs flushed and closed; durable offsets; checkpoints; only then, when all of
it is durable, the clean marker; last the lock.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec
import structlog

from broker.clock import Clock
from broker.steps import Steps, run_to_end
from broker.storage.checkpoint import Checkpoints, CheckpointTask, stated_log_start
from broker.storage.deleted_segments import UnlinkTask
from broker.storage.deletion import due_files, rename_steps
from broker.storage.directory_closing import closing_steps
from broker.storage.directory_identity import claim_directory
from broker.storage.directory_plan import DirectoryPlan, plan_directory
from broker.storage.disk import Disk, Lock
from broker.storage.disk_guard import DiskGuard
from broker.storage.durable_offsets import DurableOffsets, log_start_key
from broker.storage.index_cache import IndexCache
from broker.storage.log_config import LogConfig
from broker.storage.log_context import LogContext
from broker.storage.log_creation import NewPartition, creation_steps
from broker.storage.log_loader import load_log
from broker.storage.log_plan import LogPlan, RecoveredFacts
from broker.storage.log_removal import removal_steps
from broker.storage.partition_log import PartitionLog
from broker.storage.producer_room import ProducerRoom
from broker.storage.storage_options import StorageOptions
from protocol.errors import DataDirectoryError, StorageError
from protocol.identifiers import TopicPartition
from protocol.stored.file_names import (
    DURABLE_OFFSETS,
    LOCK_FILE,
)
from protocol.stored.meta_properties import MetaProperties

_log = structlog.get_logger(__name__)

LOGS_NOTED_PER_STEP: Final = 250
"""Some microseconds each."""


class LoadSummary(msgspec.Struct):
    """What a start has met."""

    is_clean: bool
    logs: int = 0
    checked_bytes: int = 0
    """Walked by recovery."""
    cut_bytes: int = 0
    """Torn tails; none of it was acknowledged."""
    seconds: float = 0.0


class LogDirectory:
    """The open data directory; the event loop owns it. `open` makes one, `close` ends it."""

    def __init__(
        self, context: LogContext, path: Path, lock: Lock, properties: MetaProperties
    ) -> None:
        """Not for callers: they use `open`."""
        self.context = context
        self.path = path
        self.properties = properties
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.unavailable: dict[TopicPartition, str] = {}
        """Partitions whose files the disk does not give, and why: they answer error 56."""
        self.guard = DiskGuard(context, path, lock, context.options.disk_reserve_bytes)
        """Whoever drives the directory has it look at the disk, each second."""
        self.plans: dict[TopicPartition, LogPlan] = {}
        """Logs that are to be loaded; none is left after `load`."""
        self.durable_offsets: DurableOffsets
        self.checkpoints = Checkpoints(context.disk, path, lock.check)
        self.summary = LoadSummary(is_clean=False)
        self._lock = lock
        self._known_durable: dict[tuple[UUID, int], int] = {}
        self._doomed: list[Path] = []  # directories of deleted partitions, to be unlinked

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: Path,
        clock: Clock,
        config_of: Callable[[str], LogConfig],
        options: StorageOptions | None = None,
        *,
        node_id: int = 1,
        cluster_id: str | None = None,
        topic_id_of: Callable[[str], UUID] | None = None,
        index_cache: IndexCache | None = None,
        producer_room: ProducerRoom | None = None,
        observe_flush_seconds: Callable[[float], None] | None = None,
        create: bool = False,
        load: bool = True,
    ) -> LogDirectory:
        """Lock the directory and load every log in it; on return all that they hold is durable.

        Args:
            cluster_id: None takes what the directory says, or makes one up.
            topic_id_of: Gives the id of a topic whose directories do not say; made up without it.
            index_cache, producer_room: Shared between directories; else of its own.
            observe_flush_seconds: Is told how long each sync of a log file took.
            create: Make the directory if it is missing; else that is an error, for an empty
                directory in the place of a disk that is not mounted must never pass for the data.
            load: Without, `plans` say what is to be loaded, and the caller calls `load`.

        Raises:
            DataDirectoryError: missing, locked, another node's, or of a newer format.
            OSError: the disk refused; a failed sync among others.
        """
        _make_if_missing(disk, path, create=create)
        context = LogContext.with_caches(
            disk, clock, options or StorageOptions(), index_cache=index_cache,
            producer_room=producer_room, observe_flush_seconds=observe_flush_seconds,
        )  # fmt: skip
        lock = disk.lock(path / LOCK_FILE)
        try:
            properties = claim_directory(disk, path, node_id=node_id, cluster_id=cluster_id)
            directory = cls(context, path, lock, properties)
            ids = topic_id_of or _new_topic_ids()
            directory._take(plan_directory(context, path, directory.checkpoints, config_of, ids))
            if load:
                directory.load()
        except BaseException:
            context.handles.close_all()
            lock.release()
            raise
        return directory

    # --- loading ------------------------------------------------------------------------------

    def _take(self, plan: DirectoryPlan) -> None:
        self.plans, self.unavailable = plan.logs, plan.unavailable
        self.summary.is_clean = plan.is_clean
        self._known_durable, self._doomed = plan.known_durable, plan.doomed

    def load(self, recovered: Mapping[Path, RecoveredFacts | StorageError] | None = None) -> None:
        """Load the logs that are planned; on return all that they hold is durable.

        Args:
            recovered: Those that were recovered elsewhere meanwhile, or could not be, by the
                partition's directory.

        Raises:
            OSError: the disk refused; a failed sync among others. Close the directory.
        """
        known = recovered if recovered is not None else {}
        started = self.context.clock.monotonic()
        for topic_partition, plan in self.plans.items():
            facts = known.get(plan.directory)
            if isinstance(facts, StorageError):
                self._refuse(topic_partition, facts)
                continue
            try:
                loaded = load_log(self.context, plan, facts)
            except StorageError as error:
                self._refuse(topic_partition, error)
                continue
            self.logs[topic_partition] = loaded.log
            self.summary.checked_bytes += loaded.checked_bytes
            self.summary.cut_bytes += loaded.cut_bytes
        self.plans = {}
        self.checkpoints.keep(self.unavailable)
        self._start_durable_offsets()
        self.checkpoint_task().run()
        self.summary.logs = len(self.logs)
        self.summary.seconds = self.context.clock.monotonic() - started

    def _refuse(self, topic_partition: TopicPartition, error: StorageError) -> None:
        """Do without a log: what it holds stays as it is, for another start."""
        _log.error("partition not available", partition=str(topic_partition), error=str(error))
        self.unavailable[topic_partition] = str(error)

    def _start_durable_offsets(self) -> None:
        """Write the file anew: what was loaded, and as it was what could not be loaded."""
        offsets = {}
        for partition, log in self.logs.items():
            offsets[log.topic_id, partition.partition] = log.durable_offset
            log_start_offset = stated_log_start(log)
            if log_start_offset is not None:
                offsets[log_start_key(log.topic_id, partition.partition)] = log_start_offset
        if self.unavailable:
            offsets = self._known_durable | offsets
        self.durable_offsets = DurableOffsets(
            self.context.disk,
            self.path / DURABLE_OFFSETS,
            [(topic_id, partition, offset) for (topic_id, partition), offset in offsets.items()],
        )
        for log in self.logs.values():
            log.keep_durable_offset_in(self.durable_offsets)

    # --- logs ---------------------------------------------------------------------------------

    def create_log(
        self, topic_partition: TopicPartition, topic_id: UUID, config: LogConfig
    ) -> PartitionLog:
        """Make the log of a new partition; as `create_steps`, in place."""
        partition = NewPartition(topic_partition, topic_id, config)
        return run_to_end(self.create_steps([partition]))[0]

    def create_steps(self, partitions: Sequence[NewPartition]) -> Steps[list[PartitionLog]]:
        """Make the logs of new partitions; see `log_creation.make_files` for what is durable when.

        Their files are made in jobs. Their slots are durable on return, with offset 0, by one sync
        for all, the last job: a torn tail of their first bytes must not pass for damage.

        Raises:
            TopicAlreadyExistsError: there is such a log; none was made.
            StorageError: the disk refused; some may have been made, and can be made again.
            OSError: the sync failed: final.
        """
        return creation_steps(self, self._lock, partitions)

    def refuse_lost_log(self, topic_partition: TopicPartition, topic_id: UUID) -> bool:
        """Whether a log that is not here was, and had durable records; then it is unavailable.

        It is remembered: an empty one in its place would give its offsets to other records.

        Raises:
            OSError: a sync failed: final.
        """
        durable_offset = self._known_durable.get((topic_id, topic_partition.partition), 0)
        if not durable_offset:
            return False
        self.unavailable[topic_partition] = (
            f"its directory is gone, with what it held up to offset {durable_offset}: "
            "bring it back, or delete the topic"
        )
        self.durable_offsets.add(topic_id, topic_partition.partition, durable_offset)
        self.durable_offsets.write_and_sync()
        return True

    def delete_log(self, topic_partition: TopicPartition) -> None:
        """Delete one log; as `delete_steps`, in place."""
        run_to_end(self.delete_steps([topic_partition]))

    def delete_steps(self, topic_partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Close logs and rename their directories away, durably: they will not come back.

        The renames are jobs, and so is one sync for all. Their files are unlinked later, by
        `housekeeping`; logs of the same names may be made at once.

        Raises:
            StorageError: one cannot be renamed, and is closed all the same, like those that were to
                be renamed together with it; of the others some are as they were.
        """
        return removal_steps(self, self._doomed, topic_partitions)

    def unlink_task(self, now: float) -> UnlinkTask | None:
        """Return what may be unlinked: segments after their delay (`now` is monotonic), logs."""
        paths = due_files(self.context, now)
        directories = list(self._doomed)
        if not paths and not directories:
            return None
        self._doomed.clear()
        return UnlinkTask(self.context.disk, paths, directories)

    def unlink_done(self, task: UnlinkTask) -> None:
        """An unlink task has run."""
        for trimmer in list(self.context.deleting):
            trimmer.deleted.unlinked(task)
            if trimmer.deleted.is_settled:
                del self.context.deleting[trimmer]
                self.context.touched[trimmer.log] = None

    def checkpoint_task(self) -> CheckpointTask:
        """Take a snapshot of what the checkpoint files should say; its `run` may be in a thread.

        Of what `note_touched` has not noted yet, the rest is noted now.
        """
        context = self.context
        context.touched.update((trimmer.log, None) for trimmer in context.deleting)
        while self.note_touched():
            pass
        context.is_checkpoint_due = False
        context.bytes_since_checkpoint = 0
        return self.checkpoints.task()

    def note_touched(self, limit: int = LOGS_NOTED_PER_STEP) -> bool:
        """Note the offsets of some logs for the next checkpoint; return whether there are more."""
        touched = self.context.touched
        while touched and limit > 0:
            log, _ = touched.popitem()
            if self.logs.get(log.topic_partition) is log:
                self.checkpoints.note(log)
                log_start_offset = stated_log_start(log)
                if log_start_offset is not None:
                    key = log_start_key(log.topic_id, log.topic_partition.partition)
                    self.durable_offsets.add(*key, log_start_offset)
            limit -= 1
        return bool(touched)

    def checkpoint(self) -> None:
        """Write the checkpoint files, in place, and before them the durable offsets.

        Raises:
            OSError: they have their old contents.
        """
        task = self.checkpoint_task()
        self.durable_offsets.write_or_fail()
        if self.durable_offsets.needs_sync:
            self.durable_offsets.sync()
        task.run()
        for _ in rename_steps(self.context, task):
            pass

    def close(self, *, clean: bool = True) -> None:
        """Run `close_steps` to their end."""
        run_to_end(self.close_steps(clean=clean))

    def close_steps(self, *, clean: bool = True) -> Steps[None]:
        """Close all logs, some a step, and give the directory back; see `closing_steps`."""
        return closing_steps(self, self._lock, clean=clean)


def _make_if_missing(disk: Disk, path: Path, *, create: bool) -> None:
    if disk.is_directory(path):
        return
    if not create:
        raise DataDirectoryError(f"data directory {path} is missing: is its disk mounted?")
    disk.make_directory(path)
    disk.sync_directory(path.parent)


def _new_topic_ids() -> Callable[[str], UUID]:
    ids: dict[str, UUID] = {}
    return lambda topic: ids.setdefault(topic, uuid.uuid4())
