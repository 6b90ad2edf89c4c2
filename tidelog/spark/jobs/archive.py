"""Archive: topics go to a lake of Parquet files, each record once, whatever dies on the way.

The lake's log (`tidelog.lake.log`) says how far it is, so that there is no other checkpoint: a run
goes on where the last commit ends. Tasks write staged files, which nobody sees; then the driver
commits them, a round of tasks at a time.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final, TypeVar

from protocol.identifiers import TopicPartition
from tidelog.lake.compaction import Merge, plan_merges
from tidelog.lake.entry import Change, Gap
from tidelog.lake.errors import ConflictError, LakeError
from tidelog.lake.leftovers import remove_leftovers
from tidelog.lake.log import TopicLog
from tidelog.lake.parquet_files import ParquetOptions
from tidelog.lake.reader import lake_topics, open_topic
from tidelog.lake.store import check_writable, locate_lake
from tidelog.segments.errors import DataLossError
from tidelog.spark.broker_link import checked_address
from tidelog.spark.jobs.archive_options import ArchiveOptions
from tidelog.spark.jobs.archive_result import ArchiveResult
from tidelog.spark.jobs.archive_source import ArchiveSource, BrokerSource, DirectorySource, Piece
from tidelog.spark.jobs.archive_task import Written, archive_piece, merge_files
from tidelog.spark.jobs.job import Job, JobError
from tidelog.spark.offset_ranges import Bounds
from tidelog.spark.tasks import run_tasks

__all__ = ["ArchiveOptions", "ArchiveResult", "run"]

ROUND_TASKS_PER_CORE: Final = 4
"""Of one commit: more, and a run that dies loses more work; fewer, and cores wait for each other
more often."""
FUTILE_PASSES_MAX: Final = 5
FILES_MIN_CONTINUOUS: Final = 8
"""A continuous archive merges no fewer files, else it would write the last one again each time."""

T = TypeVar("T")


def run(
    options: ArchiveOptions,
    job: Job,
    *,
    wait: Callable[[float], bool] | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> ArchiveResult:
    """Archive what there is, once or for ever.

    It may be killed at any moment, and run by several at a time: who is overtaken plans anew.

    Args:
        wait: Waits so many seconds between two looks; False ends the run. Of a run with an
            interval only.
        is_stopped: Asked between two commits; True ends the run.

    Raises:
        DataLossError: records were deleted before they were archived.
        LakeError: the lake is damaged, or its file system cannot tell two writers apart.
        SegmentError: the data directory cannot be read.
        JobError: records go away as fast as they are planned.
    """
    archive = _Archive(options, job, is_stopped)
    while True:
        if archive.source is not None:
            archive.catch_up(archive.source)
        if options.compact and not is_stopped():
            archive.compact()
        if options.interval_s is None or job.is_dry_run or is_stopped():
            return archive.result
        if not (wait or _slept)(options.interval_s):
            return archive.result


class _Archive:
    """One run."""

    def __init__(self, options: ArchiveOptions, job: Job, is_stopped: Callable[[], bool]) -> None:
        self.result = ArchiveResult(is_dry_run=job.is_dry_run)
        self.source = _source(options)
        self._options, self._job, self._is_stopped = options, job, is_stopped
        self._location = locate_lake(options.lake)
        if self.source is not None and not job.is_dry_run:
            check_writable(self._location)
        self._writer = f"{job.name}-{uuid.uuid4().hex}"
        self._commits = 0
        self._logs: dict[str, TopicLog] = {}

    # --- archiving --------------------------------------------------------------------------

    def catch_up(self, source: ArchiveSource) -> None:
        """Archive up to where the source ends now."""
        futile_passes = 0
        while True:
            before = self._commits
            problem = self._pass(source)
            if problem is None:
                return
            futile_passes = 0 if self._commits > before else futile_passes + 1
            if futile_passes == FUTILE_PASSES_MAX:
                raise JobError(f"nothing could be archived in {futile_passes} tries: {problem}")

    def _pass(self, source: ArchiveSource) -> str | None:
        """Plan and archive; return why there has to be another plan, if there has."""
        try:
            bounds = self._bounds(source)
        except DataLossError as error:  # a segment was deleted while it was looked at
            return str(error)
        try:
            starts = self._starts(bounds)
        except ConflictError as error:  # another archive has recorded the same loss
            return str(error)
        try:
            pieces = [
                piece
                for key in sorted(starts)
                if starts[key] < bounds[key].end
                for piece in source.pieces(
                    key, starts[key], bounds[key].end, self._options.task_bytes
                )
            ]
        except DataLossError as error:
            return str(error)
        if self._job.is_dry_run:
            for piece in pieces:
                self.result.count_planned(piece)
            return None
        return self._archive(source, pieces)

    def _archive(self, source: ArchiveSource, pieces: Sequence[Piece]) -> str | None:
        """Archive what was planned; return why there has to be another plan, if there has."""
        work: partial[Written] = partial(
            archive_piece,
            source=source,
            lake=self._options.lake,
            writer=self._writer,
            on_corrupt=self._options.on_corrupt,
            options=ParquetOptions(file_bytes=self._options.file_bytes),
        )
        done, total = 0, sum(piece.end - piece.start for piece in pieces)
        for round_ in self._rounds(pieces):
            problem = self._commit(round_, run_tasks(self._job.session, work, round_))
            if problem is not None:
                return problem
            done += sum(piece.end - piece.start for piece in round_)
            self._job.progress("offsets", done, total)
            if self._is_stopped():
                break
        return None

    def _bounds(self, source: ArchiveSource) -> Mapping[TopicPartition, Bounds]:
        """Return what there is, looked at after the lake: else records that another writer has
        archived in between would seem to be gone."""
        bounds = source.bounds()
        logs = {topic: self._opened(topic) for topic in sorted({key.topic for key in bounds})}
        is_older = any(
            logs[key.topic].state.ends.get(key.partition, 0) > each.end
            for key, each in bounds.items()
        )
        return source.bounds() if is_older else bounds

    def _starts(self, bounds: Mapping[TopicPartition, Bounds]) -> dict[TopicPartition, int]:
        """Return where each partition goes on; record what was lost, or fail for it."""
        starts: dict[TopicPartition, int] = {}
        losses: list[tuple[TopicPartition, int, int]] = []
        for key, (earliest, end) in bounds.items():
            log = self._logs.get(key.topic) or self._opened(key.topic)
            start = log.state.ends.get(key.partition, earliest)
            if start > end and self._options.fail_on_data_loss:
                raise DataLossError(
                    f"the lake has {key} up to offset {start}, it ends at {end} now: either "
                    "records were lost, or this is another topic of that name, or the lake was "
                    "filled with --isolation read_uncommitted; --record-data-loss waits until it "
                    "is as long again"
                )
            if start < earliest:
                losses.append((key, start, earliest))
            starts[key] = max(start, earliest)
        if losses and self._options.fail_on_data_loss:
            key, start, earliest = losses[0]
            raise DataLossError(
                f"offsets {start} to {earliest - 1} of {key} were deleted before they were "
                "archived; --record-data-loss records the gap and goes on"
            )
        if not self._job.is_dry_run:
            self._commit_losses(losses)
        return starts

    def _commit_losses(self, losses: Sequence[tuple[TopicPartition, int, int]]) -> None:
        for topic, group in groupby(sorted(losses), key=lambda loss: loss[0].topic):
            gaps = tuple(
                Gap(partition=key.partition, start_offset=start, end_offset=end, reason="lost")
                for key, start, end in group
            )
            self._commit_change(topic, Change(id=self._next_id(), gaps=gaps))

    def _commit(self, pieces: Sequence[Piece], written: Sequence[Written]) -> str | None:
        """Commit a round, a topic at a time; return why there has to be another plan, if so.

        Of a partition whose records went away under a task, what is before that is committed.
        """
        problem: str | None = None
        pairs = zip(pieces, written, strict=True)
        for topic, group in groupby(pairs, key=lambda pair: pair[0].partition.topic):
            made: list[Written] = []
            lost: set[int] = set()
            for piece, each in group:
                if each.lost is not None:
                    lost.add(piece.partition.partition)
                    problem = each.lost
                if piece.partition.partition not in lost:
                    made.append(each)
            change = Change(
                id=self._next_id(),
                add=tuple(file for each in made for file in each.files),
                gaps=tuple(gap for each in made for gap in each.gaps),
            )
            try:
                if made:
                    self._commit_change(topic, change)
            except ConflictError as error:
                problem = str(error)
        return problem

    def _commit_change(self, topic: str, change: Change) -> None:
        try:
            self._logs[topic].commit(change)
        except ConflictError:
            for file in change.add:
                self._logs[topic].store.remove(file.staged)
            raise
        self._commits += 1
        self._count(topic, change)
        self._keep_tables(topic)

    # --- compaction -------------------------------------------------------------------------

    def compact(self) -> None:
        """Merge small files of the topics. LakeError if that is all to do, and there are none."""
        files_min = 2 if self._options.interval_s is None else FILES_MIN_CONTINUOUS
        there, wanted = lake_topics(self._location), self._options.topics
        missing = sorted(set(wanted or ()).difference(there))
        if self.source is None and (missing or not there):
            what = f"topic {', '.join(missing)}" if missing else "topics"
            raise LakeError(f"{self._options.lake} has no {what}")
        merges = [
            (topic, merge)
            for topic in there
            if wanted is None or topic in wanted
            for merge in plan_merges(
                self._opened(topic).state, self._options.file_bytes, files_min=files_min
            )
        ]
        if self._job.is_dry_run:
            self.result.merged_files = sum(len(merge.files) for _, merge in merges)
            self.result.made_files = len(merges)
            return
        work = partial(merge_files, lake=self._options.lake, writer=self._writer)
        done = 0
        for round_ in self._rounds(merges):
            written = run_tasks(self._job.session, work, round_)
            for topic, group in groupby(
                zip(round_, written, strict=True), key=lambda pair: pair[0][0]
            ):
                self._commit_merges(topic, [(merge, each) for (_, merge), each in group])
            done += len(round_)
            self._job.progress("merges", done, len(merges))
            if self._is_stopped():
                break

    def _commit_merges(self, topic: str, group: Sequence[tuple[Merge, Written]]) -> None:
        done = [(merge, each) for merge, each in group if each.lost is None]
        removed = tuple(file.path for merge, _ in done for file in merge.files)
        made = tuple(file for _, each in done for file in each.files)
        if not done:
            return
        try:
            self._logs[topic].commit(Change(id=self._next_id(), add=made, remove=removed))
        except ConflictError:  # another compaction was faster
            for file in made:
                self._logs[topic].store.remove(file.staged)
            return
        self.result.merged_files += len(removed)
        self.result.made_files += len(made)
        self._keep_tables(topic)

    # --- what both need ---------------------------------------------------------------------

    def _opened(self, topic: str) -> TopicLog:
        """Return a topic's log, read to its end; of a run that writes: with nothing left undone."""
        if topic not in self._logs:
            log = self._logs[topic] = open_topic(
                self._location, topic, is_single_writer=self._options.is_single_writer
            )
            if not self._job.is_dry_run:
                remove_leftovers(log, time.time())
        log = self._logs[topic]
        if self._job.is_dry_run:
            log.refresh()
        else:
            log.recover()
            self._keep_tables(topic)
        return log

    def _keep_tables(self, topic: str) -> None:
        log = self._logs[topic]
        if log.last is None:  # nothing to make a table of
            return
        if "delta" in self._options.tables:
            from tidelog.lake.delta import update_delta

            update_delta(log)
        if "iceberg" in self._options.tables:
            from tidelog.lake.iceberg import update_iceberg

            update_iceberg(log, self._location, self._options.iceberg_catalog)

    def _rounds(self, items: Sequence[T]) -> list[Sequence[T]]:
        if not items:
            return []
        size = ROUND_TASKS_PER_CORE * self._job.session.sparkContext.defaultParallelism
        return [items[at : at + size] for at in range(0, len(items), size)]

    def _next_id(self) -> str:
        return f"{self._writer}-{uuid.uuid4().hex[:8]}"

    def _count(self, topic: str, change: Change) -> None:
        result, metric = self.result, self._job.metric
        result.count(topic, change)
        metric("commits", self._commits, "Commits of this run.")
        metric("records", result.records, "Records archived by this run.")
        metric("bytes", result.size_bytes, "Bytes of Parquet written by this run.")
        metric("lost_offsets", result.lost_offsets, "Offsets deleted before they were archived.")
        metric("last_commit_seconds", time.time(), "Time of the last commit, since 1970.")


def _source(options: ArchiveOptions) -> ArchiveSource | None:
    if options.path is not None:
        return DirectorySource(options.path, options.topics, options.isolation)
    if options.broker is not None:
        broker = checked_address(options.broker)
        return BrokerSource(broker, options.topics, options.isolation)
    return None


def _slept(seconds: float) -> bool:
    time.sleep(seconds)
    return True
