"""Stories: what a broker does with one log, one after the other, for crashes and faults to meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from broker.storage.log_config import FlushPolicy, LogConfig
from tests.crash.world import COMPACTING, DELETING, World


class Story(NamedTuple):
    """How it begins, which no fault disturbs, and what is then told."""

    config: LogConfig
    prepare: Callable[[World], None]
    tell: Callable[[World], None]

    def world(self, seed: int = 0) -> World:
        """Return a world in which it can be told."""
        world = World(self.config, seed)
        self.prepare(world)
        return world


def nothing(_: World) -> None:
    pass


def some_segments(world: World) -> None:
    world.append(12)
    world.flush()
    world.housekeep()


def append(world: World) -> None:
    """The first batches of a partition, rolls, flushes under way while more is appended."""
    world.append(3)
    world.flush()
    world.append(6)
    world.flush()
    world.append(2)
    task = world.log.flush_task()
    assert task is not None
    world.append(2)
    task.run()
    world.log.flush_completed(task)
    world.storage.directory.durable_offsets.write()
    world.acknowledge()
    world.log.roll()
    world.flush()


def checkpoint(world: World) -> None:
    for _ in range(3):
        world.append(3)
        world.flush()
        world.housekeep()


def retention(world: World) -> None:
    """Old segments, then the active one; records are deleted by a client; files are unlinked."""
    world.append(4)
    world.flush()
    world.housekeep(11_000)
    world.append(5)
    world.flush()
    world.delete_records(world.log.high_watermark - 2)
    world.housekeep(1_000)
    world.append(2)
    world.housekeep(300_000)
    world.housekeep(1_000)
    world.append(2)
    world.flush()


def truncation(world: World) -> None:
    """In the active segment, over segments, below the log start's neighbours; and on it goes."""
    world.append(2)
    world.truncate(world.log.log_end_offset - 1)
    world.append(2)
    world.flush()
    world.truncate(world.log.log_end_offset // 2)
    world.append(3)
    world.flush()
    world.housekeep()
    world.truncate(world.log.log_start_offset)
    world.append(2)
    world.flush()


def compaction(world: World) -> None:
    """Two passes with a small map, more records, a pass when tombstones are due; unlinking."""
    world.clean(dedupe_buffer_bytes=72)
    world.housekeep(60_000)
    world.append(5)
    world.flush()
    world.housekeep()
    world.clean()
    world.housekeep(2_000)


def stop_and_start(world: World) -> None:
    world.append(3)
    world.stop()
    world.start()
    world.append(3)
    world.flush()
    world.stop()
    world.start()


OS: Final = msgspec.structs.replace(DELETING, flush_policy=FlushPolicy.OS)

STORIES: Final = {
    "append": Story(DELETING, nothing, append),
    "append, flush policy os": Story(OS, nothing, append),
    "checkpoint": Story(DELETING, some_segments, checkpoint),
    "retention": Story(DELETING, some_segments, retention),
    "truncation": Story(DELETING, some_segments, truncation),
    "compaction": Story(COMPACTING, some_segments, compaction),
    "stop and start": Story(DELETING, some_segments, stop_and_start),
}
