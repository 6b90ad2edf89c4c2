"""What an open log does about its wounds: those it is told of, and those that go with what is cut.

The damage is in `log.damage`; each segment is told of its own, for its look-ups step over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.storage.quarantine import report_found

if TYPE_CHECKING:
    from broker.storage.damage import Damage
    from broker.storage.log_context import LogContext
    from broker.storage.partition_log import PartitionLog


def add_damage(log: PartitionLog, context: LogContext, damage: Damage) -> bool:
    """Take note of a wound that was found while the log is open; return whether it is new.

    By the scrubber, or by a look-up. It is copied to quarantine and said aloud, reads inside
    answer CORRUPT_MESSAGE, and the recovery point stays below it. Nothing is cut.
    """
    base_offset = damage.segment_base_offset
    segment = log.segments.floor(base_offset)
    if segment is None or segment.base_offset != base_offset:
        return False  # it was deleted meanwhile
    if damage.end_position >= segment.size_bytes:  # what was at its end, only others can say
        following = log.segments.higher(base_offset)
        end = log.log_end_offset if following is None else following.base_offset
        damage = damage._replace(next_offset=max(damage.next_offset, end))
    if not log.damage.add(damage):
        return False
    mark_wounds(log, base_offset)
    log.damage_changed()
    context.is_checkpoint_due = True
    report_found(context, log.directory, damage)
    return True


def mark_wounds(log: PartitionLog, base_offset: int) -> None:
    """Have a segment's look-ups step over its wounds."""
    segment = log.segments.floor(base_offset)
    if segment is None or segment.base_offset != base_offset:
        return
    following = log.segments.higher(base_offset)
    limit_offset = None if following is None else following.base_offset
    segment.set_wounds(log.damage.of_segment(base_offset), limit_offset)


def forget_damage(log: PartitionLog, base_offset: int) -> None:
    """Take note that a segment was deleted, its wounds with it."""
    if log.damage:
        log.damage.forget(base_offset)
        log.damage_changed()


def damage_cut(log: PartitionLog, base_offset: int, position: int) -> None:
    """Take note that a segment was cut: its wounds from there on are gone."""
    if log.damage:
        log.damage.cut(base_offset, position)
        mark_wounds(log, base_offset)
