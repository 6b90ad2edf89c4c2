"""Oracle: what one partition was sent, promised and showed, and what must be true of it ever after.

One piece of code for all tests here, on a disk in memory or against a daemon: what was acknowledged
is there once, at its offset, byte-equal; what a reader saw is not gone; what nobody sent is not
there; look-ups by offset and by time answer what a full scan does; the words of the design hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

LOOKUPS_MAX: Final = 24
"""Offsets, and timestamps, that are looked up in one check."""


class Message(NamedTuple):
    """One record; no two that are sent are equal."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Wound(NamedTuple):
    """Offsets that a log reports as damaged."""

    first_offset: int
    next_offset: int


class Offsets(NamedTuple):
    """The words of the design; -1: not known to who looks."""

    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int
    recovery_point: int = -1
    durable: int = -1
    is_commit: bool = True

    def faults(self) -> list[str]:
        """What does not hold of them."""
        wanted = {
            "log start <= LSO": self.log_start <= self.last_stable,
            "LSO <= HW": self.last_stable <= self.high_watermark,
            "HW <= LEO": self.high_watermark <= self.log_end,
        }
        if self.durable >= 0:
            durable = max(self.durable, self.log_start)
            wanted["recovery point <= durable"] = self.recovery_point <= self.durable
            wanted["durable <= LEO"] = self.durable <= self.log_end
            wanted["HW <= durable"] = not self.is_commit or self.high_watermark <= durable
        return [f"{words} is not so: {self}" for words, holds in wanted.items() if not holds]


class View(Protocol):
    """A partition as its readers find it."""

    def offsets(self) -> Offsets: ...

    def scan(self) -> tuple[list[tuple[int, Message]], list[Wound]]:
        """Return every record from the log start to the high watermark, and what is damaged."""
        ...

    def first_from(self, offset: int) -> tuple[int, Message] | None:
        """Return the first record that a read from `offset` on gives.

        Raises:
            UnreadableError: the answer is that it is damaged.
        """
        ...

    def at_time(self, timestamp_ms: int) -> int | None:
        """Return the offset that a look-up by time answers; errors as of `first_from`."""
        ...


class UnreadableError(Exception):
    """A read or a look-up was answered with CORRUPT_MESSAGE."""


class ViolationError(AssertionError):
    """A promise was broken."""


class Oracle:
    """Of one partition. It is told what is done, and holds what is found against that."""

    def __init__(self, *, compacts: bool = False, keeps_last: int | None = None) -> None:
        """Args:
        compacts: A record may be gone if there is a later one of its key.
        keeps_last: Retention may take all but so many of the last records; None: only what
            `may_delete` says.
        """
        self.compacts, self.keeps_last = compacts, keeps_last
        self.sent: set[Message] = set()
        self.promised: dict[int, Message] = {}
        """By offset, what was acknowledged or seen."""
        self.deletable_offset = 0
        """What is below it may be gone."""
        self.deleted_offset = 0
        """What is below it was deleted for good: the log start does not go back below it."""

    def copy(self) -> Oracle:
        """Return one that knows the same."""
        other = Oracle(compacts=self.compacts, keeps_last=self.keeps_last)
        other.sent, other.promised = set(self.sent), dict(self.promised)
        other.deletable_offset, other.deleted_offset = self.deletable_offset, self.deleted_offset
        return other

    # --- what is done -------------------------------------------------------------------------

    def sends(self, messages: Iterable[Message]) -> None:
        """They may be in the log from now on."""
        self.sent.update(messages)

    def promises(self, offset: int, message: Message) -> None:
        """It was acknowledged at this offset, or a reader has got it there."""
        before = self.promised.setdefault(offset, message)
        if before != message:
            raise ViolationError(f"offset {offset} was {before} and is {message}")

    def may_delete(self, offset: int) -> None:
        """Retention may take what is below; or a client has asked for it, and has no answer yet."""
        self.deletable_offset = max(self.deletable_offset, offset)

    def deletes(self, offset: int) -> None:
        """A client was answered that all below is deleted."""
        self.may_delete(offset)
        self.deleted_offset = max(self.deleted_offset, offset)

    def cuts(self, offset: int) -> None:
        """The log is being truncated: nothing is promised any more at or above this offset."""
        self.promised = {at: each for at, each in self.promised.items() if at < offset}

    # --- what is found ------------------------------------------------------------------------

    def check(self, view: View, allowed: Callable[[Wound], bool] = lambda _: False) -> None:
        """Hold what readers find against all that is known; then they have seen it.

        Args:
            allowed: Says of a reported wound whether the test has made it.

        Raises:
            ViolationError: names all promises that are broken.
        """
        offsets = view.offsets()
        found, wounds = view.scan()
        faults = offsets.faults()
        faults += [
            f"{each} is reported, and nobody made it" for each in wounds if not allowed(each)
        ]
        faults += self._alien(found, offsets)
        faults += self._missing(dict(found), wounds, offsets)
        faults += _wrong_lookups(view, found, wounds, offsets)
        if faults:
            more = f"\n... and {len(faults) - 10} more" if len(faults) > 10 else ""
            raise ViolationError("\n".join(faults[:10]) + more)
        for offset, message in found:
            self.promises(offset, message)

    def _alien(self, found: Sequence[tuple[int, Message]], offsets: Offsets) -> list[str]:
        """What is there and must not be: unsent, twice, out of order, outside the log."""
        faults = [f"never sent: {offset} {each}" for offset, each in found if each not in self.sent]
        numbers = [offset for offset, _ in found]
        if numbers != sorted(set(numbers)):
            faults.append(f"offsets do not grow: {numbers}")
        if len({message for _, message in found}) < len(found):
            faults.append("a message is there twice")
        if numbers and not offsets.log_start <= numbers[0] <= numbers[-1] < offsets.high_watermark:
            faults.append(f"records {numbers[0]} to {numbers[-1]} outside of {offsets}")
        return faults

    def _missing(
        self, found: dict[int, Message], wounds: Sequence[Wound], offsets: Offsets
    ) -> list[str]:
        """What was promised and is gone, or another."""
        kept_from = self.deletable_offset
        if self.keeps_last is not None:
            kept_from = max(kept_from, max(self.promised, default=0) + 1 - self.keeps_last)
        faults = []
        if offsets.log_start > max(kept_from, 0):
            faults.append(f"the log starts at {offsets.log_start}, allowed was {kept_from}")
        if offsets.log_start < self.deleted_offset:
            faults.append(f"deleted up to {self.deleted_offset}, starts at {offsets.log_start}")
        end = max(self.promised, default=-1) + 1
        if offsets.log_end < end:
            faults.append(f"the log ends at {offsets.log_end}, promised was {end}")
        last_of = _last_offsets(self.promised | found) if self.compacts else {}
        for offset, message in self.promised.items():
            if offset < offsets.log_start or any(a <= offset < b for a, b in wounds):
                continue
            there = found.get(offset)
            if there is None and self._may_be_compacted(offset, message, last_of):
                continue
            if there != message:
                faults.append(f"at {offset} {message} was promised, there is {there}")
        for key, last in last_of.items() if not wounds else ():
            if last >= offsets.log_start and last not in found:  # a tombstone that was due
                old = [at for at, each in found.items() if each.key == key and at < last]
                if old:
                    faults.append(f"{key!r} was deleted at {last}, and is back at {old}")
        return faults

    def _may_be_compacted(
        self, offset: int, message: Message, last_of: dict[bytes | None, int]
    ) -> bool:
        if not self.compacts:
            return False
        return last_of[message.key] > offset or message.value is None


def _last_offsets(messages: dict[int, Message]) -> dict[bytes | None, int]:
    return {messages[offset].key: offset for offset in sorted(messages)}


def _wrong_lookups(
    view: View, found: Sequence[tuple[int, Message]], wounds: Sequence[Wound], offsets: Offsets
) -> list[str]:
    """Where a look-up answers something else than a full scan."""
    faults = []
    for offset in _some(range(offsets.log_start, offsets.high_watermark)):
        wanted = next((each for each in found if each[0] >= offset), None)
        is_wounded = any(first <= offset < following for first, following in wounds)
        try:
            answer = view.first_from(offset)
        except UnreadableError as error:
            if not is_wounded:
                faults.append(f"a read from {offset} fails: {error}")
            continue
        if is_wounded:
            faults.append(f"a read inside a wound, from {offset}, answers {answer}")
        elif answer != wanted:
            faults.append(f"a read from {offset} begins with {answer}, a scan with {wanted}")
    times = sorted({message.timestamp_ms + step for _, message in found for step in (-1, 0, 1)})
    for timestamp_ms in _some(times):
        at = next((at for at, each in found if each.timestamp_ms >= timestamp_ms), None)
        try:
            answered = view.at_time(timestamp_ms)
        except UnreadableError as error:
            if not wounds:
                faults.append(f"a look-up of time {timestamp_ms} fails: {error}")
            continue
        if answered != at:
            faults.append(f"time {timestamp_ms} is at {answered}, by a scan at {at}")
    return faults


def _some(values: Sequence[int]) -> Sequence[int]:
    """All of a few, an even choice of many; always the first and the last."""
    if len(values) <= LOOKUPS_MAX:
        return values
    step = len(values) / LOOKUPS_MAX
    return [values[int(number * step)] for number in range(LOOKUPS_MAX)] + [values[-1]]
