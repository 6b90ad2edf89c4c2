"""LogCleaning: what the cleaner has to do with one open log: where it was, and putting in place.

A cleaned segment takes the place of those it was made from in this order; a crash at any point
leaves a directory from which a start (`leftovers`) makes the log before or after:

1. the `.cleaned` files were made durable by who wrote them;
2. they are renamed to `.swap`, the log last; directory synced. From here on the new one counts;
3. the segment list is replaced: readers under way go on with the old segments' files;
4. the old ones are renamed to `.deleted`, and unlinked after `file_delete_delay_ms`; directory
   synced: no old one may come back beside a new one that has its plain name;
5. the suffix `.swap` is taken off, of the log last; directory synced.

From 2 to 5 nothing else changes the segment list: retention leaves the log alone, and who cuts it
first brings it to the end (`finish`). Before 2 retention goes on, however long a pass takes: a
group of which it has taken a part is left out, and the log counts as not cleaned. All on the event
loop but for the syncs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from broker.steps import Steps, run_to_end
from broker.storage.cleaned_segment import KINDS
from broker.storage.disk import storage_errors
from broker.storage.segment import LogSegment
from protocol.errors import StorageError
from protocol.stored.file_names import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, segment_file_name

if TYPE_CHECKING:
    from broker.storage.compactor import CleanedGroup
    from broker.storage.log_context import LogContext
    from broker.storage.partition_log import PartitionLog

_log = structlog.get_logger(__name__)

LOG_LAST: Final = (*(kind for kind in KINDS if kind != LOG_SUFFIX), LOG_SUFFIX)


class LogCleaning:
    """Of one log; there is at most one pass at a time."""

    __slots__ = (
        "_context", "_log", "_new", "_old", "_retiring", "cleaned_offset", "is_incomplete",
        "segments",
    )  # fmt: skip

    def __init__(self, log: PartitionLog, context: LogContext) -> None:
        self._log, self._context = log, context
        self.cleaned_offset: int | None = None
        """Everything below is clean; None: nobody knows."""
        self.segments: tuple[LogSegment, ...] = ()
        """Those that a pass is working on; none once it is given up."""
        self.is_incomplete = False
        """The pass has left out a group: the log is not clean up to where the pass says."""
        self._old: tuple[LogSegment, ...] = ()
        self._retiring: list[LogSegment] = []  # of the old ones, those that have their names yet
        self._new: LogSegment | None = None

    @property
    def is_replacing(self) -> bool:
        """Whether a new segment is half in place: nothing else may change the segment list."""
        return bool(self._old)

    def begin(self, segments: tuple[LogSegment, ...]) -> None:
        """Note what a pass works on."""
        self.segments = segments
        self.is_incomplete = False

    def before_cut(self, offset: int) -> None:
        """Make the log ready to be cut at `offset`; the pass that is under way is given up.

        Raises:
            StorageError, OSError: it cannot be made ready, and must not be cut.
        """
        self.segments = ()
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, offset)
        self.finish()

    def finish(self) -> None:
        """Bring a replacement that is under way to its end, in place; errors as of `replace`."""
        if self.is_replacing:
            self._sync()  # of step 2, perhaps
            run_to_end(self.finish_steps())

    # --- putting in place ---------------------------------------------------------------------

    def replace(self, group: CleanedGroup) -> Steps[bool]:
        """Put a cleaned segment in place; return False if the log has changed: it is given up.

        One that retention has taken meanwhile, all of it or a part, is left out, which is no reason
        to give up the others. The jobs are syncs of the directory, which may be repeated.

        Raises:
            StorageError: the disk refused. Before step 3 nothing has changed; behind it, try
                `finish_steps` again, or leave it to the next start.
            OSError: a sync failed: final.
        """
        old = self._current(group)
        base_offset = group.old_base_offsets[0]
        if old is None or len(old) < len(group.old_base_offsets):
            self._discard(base_offset, CLEANED_SUFFIX)
            self.is_incomplete |= bool(old)
            return old is not None
        self._old, self._retiring = old, list(old)
        try:
            self._name_swap(base_offset)
        except StorageError:
            self._old = ()
            self._discard(base_offset, CLEANED_SUFFIX)
            self._discard(base_offset, SWAP_SUFFIX)
            raise
        yield self._sync
        return (yield from self.finish_steps())

    def _current(self, group: CleanedGroup) -> tuple[LogSegment, ...] | None:
        """Return the segments that a group is made from, without those that retention has taken.

        None: the log is not the one any more that the pass was begun with.
        """
        log = self._log
        wanted = set(group.old_base_offsets)
        known = [each for each in self.segments if each.base_offset in wanted]
        if log.refusal or log.damage or self.is_replacing or len(known) < len(wanted):
            return None
        first = log.segments.base_offsets[0]
        old = tuple(each for each in known if each.base_offset >= first)
        is_current = all(each in log.segments and each is not log.active for each in old)
        return old if is_current else None

    def _name_swap(self, base_offset: int) -> None:
        """Step 2."""
        disk = self._context.disk
        for kind in LOG_LAST:
            cleaned = self._path(base_offset, kind, CLEANED_SUFFIX)
            with storage_errors("rename", cleaned):
                if disk.exists(cleaned):
                    disk.rename(cleaned, self._path(base_offset, kind, SWAP_SUFFIX))

    def finish_steps(self) -> Steps[bool]:
        """Do steps 3 to 5, or what is left of them; errors as those of `replace`."""
        log = self._log
        while self._old and not log.is_closed:
            if self._new is None:
                self._new = self._opened(self._old[0].base_offset)
                log.segments = log.segments.replaced(self._old, [self._new])
                log.upkeep.segments_replaced(self._new)
            elif self._retiring:
                self._retire(self._retiring[0])
                del self._retiring[0]
                yield None if self._retiring else self._sync
            else:
                self._take_suffix_off(self._new)
                yield self._sync
                self._old, self._new = (), None
        return not log.is_closed

    def _opened(self, base_offset: int) -> LogSegment:
        """Step 3: return the new segment, under its name of the moment."""
        context = self._context
        segment = LogSegment.open(
            context.handles, self._log.directory, base_offset, self._log.config, context.clock,
            suffix=SWAP_SUFFIX, index_cache=context.index_cache,
        )  # fmt: skip
        segment.records.seal()
        return segment

    def _retire(self, segment: LogSegment) -> None:
        """Step 4, of one old segment."""
        log = self._log
        log.unflushed.remove_sealed(segment)
        self._context.deleting[log.trimmer] = None
        log.trimmer.deleted.add_replaced(segment, log.config.file_delete_delay_ms)

    def _take_suffix_off(self, segment: LogSegment) -> None:
        """Step 5; what has its plain name already is left alone."""
        for index in (segment.offset_index, segment.time_index, segment.transaction_index):
            if index.path.name.endswith(SWAP_SUFFIX):
                with storage_errors("rename", index.path):
                    index.rename_to(_plain(index.path))
        if segment.path.name.endswith(SWAP_SUFFIX):
            segment.records.rename_to(_plain(segment.path))

    def _path(self, base_offset: int, kind: str, state: str) -> Path:
        return self._log.directory / segment_file_name(base_offset, kind, state)

    def _sync(self) -> None:
        self._context.disk.sync_directory(self._log.directory)

    def remove_cleaned(self) -> None:
        """Remove what a pass has left that was stopped or killed; may be called in a thread.

        Only when nothing writes it any more. If the log was deleted, a new one may have its
        directory's name, and find such files in it.
        """
        disk, directory = self._context.disk, self._log.directory
        try:
            for name in disk.list_directory(directory):
                if name.endswith(CLEANED_SUFFIX):
                    disk.unlink(directory / name)
        except FileNotFoundError:
            pass  # deleted
        except OSError as error:
            _log.warning("cleaned files stay", path=str(directory), error=str(error))

    def _discard(self, base_offset: int, state: str) -> None:
        """Remove new files that nobody needs; what cannot be removed goes at the next start."""
        disk = self._context.disk
        for kind in KINDS:
            path = self._path(base_offset, kind, state)
            try:
                if disk.exists(path):
                    disk.unlink(path)
            except OSError as error:
                _log.warning("a cleaned file stays", path=str(path), error=str(error))


def _plain(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(SWAP_SUFFIX))
