"""Drivers of Spark that are killed: SIGKILL when the command is so far, and no sooner.

How far it is, a function says that the test gives: how many files a lake has seen, or how many
records a topic has. So the moment depends on the seed and not on how long a Java takes to start.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

SEEDS_VARIABLE = "TIDELOG_SPARK_CRASH_SEEDS"
TIMEOUT_S = 400.0
POLL_S = 0.01


class Kill(NamedTuple):
    """When a driver is killed, and what is killed with it."""

    progress: int
    """As soon as it is so far,"""
    delay_s: float
    """and then a little later."""
    is_whole_session: bool
    """Java and the workers at the same moment; else they notice that the driver is gone, and may
    write on until then."""


class Outcome(NamedTuple):
    """What became of a command."""

    was_killed: bool
    """False: it came to its end first."""
    output: str


def seeds(*few: int) -> Sequence[int]:
    """Return the seeds to run: these few in `make test`, as many as it says in `make spark-crash`.

    Each starts a Java, so `make test` has three in all, at different moments of what it kills.
    """
    wanted = os.environ.get(SEEDS_VARIABLE)
    return few if wanted is None else range(int(wanted))


def kill_of(seed: int, progress_max: int) -> Kill:
    """Return the kill of a seed: all of the way is gone through evenly as seeds go on."""
    chance = random.Random(seed)
    golden = 0.618033988749895  # its multiples spread evenly, however many seeds there are
    progress = 1 + int((seed * golden + 0.4) % 1.0 * progress_max)
    return Kill(progress, chance.choice([0.0, 0.002, 0.02, 0.1]), chance.random() < 0.5)


def run_killed(
    command: Sequence[str], progress: Callable[[], int], kill: Kill, log: Path
) -> Outcome:
    """Run a command until it is killed, or to its end; return once none of its processes is left.

    Args:
        progress: How far it is; may only grow.
        log: Where what it writes goes.
    """
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        try:
            was_killed = _killed(process, progress, kill)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            _wait_for_session(process.pid)
    return Outcome(was_killed, log.read_text(errors="replace"))


def _killed(process: subprocess.Popen[bytes], progress: Callable[[], int], kill: Kill) -> bool:
    deadline = time.monotonic() + TIMEOUT_S
    while progress() < kill.progress:
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline, "the driver hangs"
        time.sleep(POLL_S)
    time.sleep(kill.delay_s)
    if process.poll() is not None:
        return False
    if kill.is_whole_session:
        _kill_session(process.pid)
    else:
        process.kill()
    return True


def _session(leader: int) -> list[int]:
    """Return the processes of a session: Java is in its leader's group, the workers are not."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state != "Z":
                found.append(int(stat.parent.name))
    return found


def _kill_session(leader: int) -> None:
    for process in _session(leader):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _wait_for_session(leader: int) -> None:
    """Wait for Java and the workers, which end by themselves when their driver is gone."""
    deadline = time.monotonic() + 30.0
    while _session(leader):
        if time.monotonic() > deadline:
            _kill_session(leader)
        time.sleep(0.02)
