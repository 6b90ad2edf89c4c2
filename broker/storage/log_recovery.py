"""LogRecovery: recovers one log for another process, which opens it from the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.storage.log_context import LogContext
from broker.storage.log_loader import load_log
from broker.storage.log_plan import LogPlan, RecoveredFacts

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.storage.disk import Disk
    from broker.storage.storage_options import StorageOptions


def recover_log(disk: Disk, clock: Clock, options: StorageOptions, plan: LogPlan) -> RecoveredFacts:
    """Recover a log that nobody has open, and leave it to be opened without another look.

    What it changes can be interrupted at any time, and then done again.

    Raises:
        StorageError: a file cannot be read or changed: this log cannot be used now.
        OSError: a sync failed: final.
    """
    context = LogContext.with_caches(disk, clock, options)
    try:
        loaded = load_log(context, plan)
        log = loaded.log
        log.active.seal()  # so that its indexes are whole in their files
        return RecoveredFacts(
            {each.base_offset: each.size_bytes for each in log.segments},
            log.log_end_offset,
            tuple(log.damage),
            loaded.checked_bytes,
            loaded.cut_bytes,
            tuple(each.base_offset for each in log.segments if each.check.unchecked is None),
            log.damage.kept_segments,
        )
    finally:
        context.handles.close_all()
