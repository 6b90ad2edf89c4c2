"""TransferNotes: what jobs that copy records to topics must remember, kept by the target's broker.

A *round* copies fixed offsets of each source partition to fixed places: it is written down before
its first record and, once more, when it is done. Who runs the job again, wherever that is, does the
same round to its end, and then begins the next one with what has come since.

The notes are a topic of one partition, written with APPEND_AT: of two runs that plan a round at the
same time one gets it in, and both do that one.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from protocol.errors import BrokerError, ErrorCode
from protocol.native.request_types import LATEST_TIME
from protocol.record import Record
from protocol.record_batch_builder import build_batch
from tidelog.client import Client, UnexpectedOffsetError
from tidelog.spark.jobs.job import JobError
from tidelog.spark.own_topics import NOTES_TOPIC

__all__ = ["Round", "TransferNotes", "make_topic"]

FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round of one transfer."""

    number: int
    source: str
    target: str
    ranges: dict[int, tuple[int, int]]
    """By source partition: the first offset, and the one after the last."""
    bases: dict[int, int]
    """By target partition: the offset of the round's first record."""
    is_done: bool = False
    ends: dict[int, int] = {}
    """By target partition: the offset after the round's last record, once it is done."""


class TransferNotes:
    """The notes of one transfer, which its id tells from others."""

    def __init__(self, client: Client, id: str) -> None:
        self._client, self._id = client, id.encode()
        self._end = 0

    def last(self) -> Round | None:
        """Return the last round that was written down; None: there is none.

        Raises:
            JobError: the notes are not those of a transfer.
        """
        info = self._client.topics(NOTES_TOPIC)[0]
        if info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        self._end = self._client.offsets(NOTES_TOPIC, time_ms=LATEST_TIME)[0]
        found = None
        for message in self._client.messages(NOTES_TOPIC, [0]):
            if message.key == self._id and message.value is not None:
                found = message.value
        if found is None:
            return None
        try:
            return msgspec.json.decode(found, type=Round)
        except msgspec.DecodeError as error:
            raise JobError(f"the topic {NOTES_TOPIC} has a note that is none: {error}") from error

    def write(self, round_: Round) -> bool:
        """Write a round down; False: another note has come since `last`, so look again."""
        make_topic(self._client, NOTES_TOPIC, 1)
        record = Record(0, time.time_ns() // 1_000_000, self._id, msgspec.json.encode(round_))
        try:
            self._client.append_at(NOTES_TOPIC, 0, self._end, build_batch([record]))
        except UnexpectedOffsetError:
            return False
        self._end += 1
        return True


def make_topic(client: Client, topic: str, partitions: int) -> None:
    """Make a topic that keeps what it has, unless it is there: records may be old when they come.

    Raises:
        JobError: it is there with fewer partitions.
    """
    info = client.topics(topic)[0]
    if info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        try:
            client.create_topic(topic, partitions, FOR_EVER)
        except BrokerError as error:
            if error.number != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        info = client.topics(topic)[0]
    if info.error:
        raise BrokerError(info.error, topic)
    if len(info.partitions) < partitions:
        raise JobError(
            f"{topic} has {len(info.partitions)} partitions, and {partitions} are needed: name "
            "another topic, which is made then"
        )
