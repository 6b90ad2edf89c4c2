"""Transfer: rounds of a job that copies records to a topic, each record once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from protocol.native.request_types import LATEST_TIME
from tidelog.client import Client
from tidelog.spark.jobs.job import Job, JobError
from tidelog.spark.jobs.transfer_notes import Round, TransferNotes, make_topic

__all__ = ["Copied", "TransferResult", "transfer"]

Ranges = Mapping[int, tuple[int, int]]


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What one task has done."""

    partition: int
    """Of the target."""
    base_offset: int
    end_offset: int
    """Where the round's records begin and end."""
    appended: int
    """How many of them this run has written; the others were there."""


class TransferResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has done; the tasks of all its rounds."""

    target: str
    copied: tuple[Copied, ...] = ()
    planned: dict[int, tuple[int, int]] | None = None
    """With a dry run: the offsets of the source that would be copied."""

    @property
    def is_ok(self) -> bool:
        return True

    def rows(self) -> Sequence[Mapping[str, object]]:
        if self.planned is not None:
            return [
                {"source_partition": partition, "from": start, "to_below": end}
                for partition, (start, end) in self.planned.items()
            ]
        return [
            {
                "partition": each.partition,
                "from": each.base_offset,
                "to_below": each.end_offset,
                "appended": each.appended,
            }
            for each in self.copied
        ]

    def sentence(self) -> str:
        if self.planned is not None:
            return f"would be copied to {self.target}" if self.planned else "nothing is to be done"
        if not self.copied:
            return f"{self.target} has all of it already"
        appended = sum(each.appended for each in self.copied)
        present = sum(each.end_offset - each.base_offset for each in self.copied) - appended
        return f"{self.target}: {appended:,} records appended, {present:,} were there"


def transfer(
    job: Job,
    client: Client,
    id: str,
    *,
    source: str,
    target: str,
    partitions: int,
    ends: Callable[[], Mapping[int, tuple[int, int]]],
    copy: Callable[[Round], Sequence[Copied]],
) -> TransferResult:
    """Do the round that is not done, if there is one, and then one with what is new.

    Args:
        source: What is copied, for the notes.
        partitions: Of the target, which is made if it is missing.
        ends: Returns where each partition of the source begins and ends.
        copy: Does a round; it may have been done before, or be done by another run meanwhile.

    Raises:
        JobError: see `ExactAppend` and `make_topic`.
    """
    notes = TransferNotes(client, id)
    copied: list[Copied] = []
    is_last = False
    while not is_last:
        round_ = notes.last()
        if round_ is None or round_.is_done:
            _check_there(client, round_)
            ranges, is_last = _new_ranges(round_, ends()), True
            if not ranges or job.is_dry_run:
                return _unchanged(job, target, ranges, copied)
            number = 0 if round_ is None else round_.number + 1
            bases = _ends_of(client, target, partitions)
            round_ = Round(number=number, source=source, target=target, ranges=ranges, bases=bases)
            if not notes.write(round_):
                is_last = False
                continue
        elif job.is_dry_run:
            return _unchanged(job, target, round_.ranges, copied)
        make_topic(client, target, partitions)  # it may have been deleted since
        done = copy(round_)
        copied += done
        _write_done(notes, round_, {each.partition: each.end_offset for each in done})
        total = sum(each.appended for each in copied)
        job.metric("records_appended", total, "Records that this run has written.")
    return TransferResult(target=target, copied=tuple(copied))


def _unchanged(
    job: Job, target: str, ranges: dict[int, tuple[int, int]], copied: Sequence[Copied]
) -> TransferResult:
    """Return the result where nothing more is done, or nothing may be."""
    planned = ranges if job.is_dry_run else None
    return TransferResult(target=target, copied=tuple(copied), planned=planned)


def _ends_of(client: Client, target: str, partitions: int) -> dict[int, int]:
    """Return where the target's partitions end; they are made if they are missing."""
    make_topic(client, target, partitions)
    return {
        number: client.offsets(target, number, time_ms=LATEST_TIME)[0]
        for number in range(partitions)
    }


def _new_ranges(last: Round | None, ends: Ranges) -> dict[int, tuple[int, int]]:
    """Return what no round has had."""
    before = {} if last is None else {number: end for number, (_, end) in last.ranges.items()}
    found = {}
    for number, (start, end) in sorted(ends.items()):
        start = before.get(number, start)
        if end < start:
            raise JobError(
                f"partition {number} of the source ends at offset {end}, and was copied up to "
                f"{start}: it is another source of that name; begin anew with another --id"
            )
        found[number] = (start, end)
    return found if any(start < end for start, end in found.values()) else {}


def _check_there(client: Client, last: Round | None) -> None:
    """Raise JobError if the target does not have any more what was copied to it."""
    if last is None:
        return
    partitions = client.topics(last.target)[0].partitions
    there = {each.partition: each.high_watermark for each in partitions}
    for number, end in last.ends.items():
        if there.get(number, 0) < end:
            raise JobError(
                f"{last.target}-{number} ends at offset {there.get(number, 0)}, and had {end} when "
                "it was filled: it was deleted, or lost; begin anew with another --id"
            )


def _write_done(notes: TransferNotes, round_: Round, ends: dict[int, int]) -> None:
    done = msgspec.structs.replace(round_, is_done=True, ends=ends)
    while not notes.write(done):
        last = notes.last()
        if last is None or last.number > round_.number or last.is_done:
            return  # another run was faster
