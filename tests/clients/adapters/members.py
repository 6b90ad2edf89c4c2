"""Members of one group, each a process, and what they say."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from tests.clients.adapters.client import WAIT_S

ROOT = Path(__file__).resolve().parents[3]


class Member:
    """One process."""

    def __init__(self, group: Members) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.clients.programs.member", *group.arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._heard = group.heard
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._heard.put((self, json.loads(line)))

    def leave(self) -> None:
        """Have it leave the group."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(WAIT_S) == 0

    def kill(self) -> None:
        """End it as a crash would: the group is told nothing."""
        self._process.kill()
        self._process.wait()


class Members:
    """A group of one topic.

    Attributes:
        arguments: Of each member's process.
        assigned: The partitions of each member, as it said last.
        read: Partition and offset of each record that somebody has read, in the order heard.
    """

    def __init__(self, client: str, address: str, topic: str, group: str) -> None:
        self.arguments = (client, address, topic, group)
        self.heard: queue.Queue[tuple[Member, dict[str, list[int]]]] = queue.Queue()
        self.assigned: dict[Member, list[int]] = {}
        self.read: list[tuple[int, int]] = []
        self._all: list[Member] = []

    def join(self) -> Member:
        """Start a member."""
        member = Member(self)
        self._all.append(member)
        return member

    def wait_until_shared(self, *members: Member, partitions: int) -> None:
        """Wait until these have all partitions between them, each some and none twice."""
        wanted = list(range(partitions))

        def is_shared() -> bool:
            shares = [self.assigned.get(member, []) for member in members]
            return all(shares) and sorted(number for each in shares for number in each) == wanted

        self._wait(is_shared)

    def wait_until_read(self, count: int) -> None:
        """Wait until so many different records have been read."""
        self._wait(lambda: len(set(self.read)) >= count)

    def _wait(self, is_so: Callable[[], bool]) -> None:
        deadline_s = monotonic() + WAIT_S
        while not is_so():
            try:
                member, event = self.heard.get(timeout=max(0.0, deadline_s - monotonic()))
            except queue.Empty:
                raise AssertionError((list(self.assigned.values()), len(self.read))) from None
            if "assigned" in event:
                self.assigned[member] = event["assigned"]
            else:
                partition, offset = event["read"]
                self.read.append((partition, offset))

    def close(self) -> None:
        """End those that are left."""
        for member in self._all:
            member.kill()
