"""GroupLoader: what a partition of `__consumer_offsets` says of groups, read from its log.

The last record of each key holds; a tombstone takes away what was before it. Records of a
transaction hold when its marker says so, from where the marker is; what is undecided does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import structlog

from broker.coordinator.group import Group
from broker.coordinator.group_values import fill_group, offset_from_value
from broker.storage.log_reader import ReadLimit
from broker.storage.segment_check import BytesUncheckedError
from protocol.end_transaction_marker import decode_marker
from protocol.errors import CorruptMessageError, StorageError, StoredFormatError
from protocol.kafka.message import NO_UUID
from protocol.legacy_conversion import iterate_as_v2
from protocol.record_batch import check_batch, iterate_records
from protocol.record_batch_header import CONTROL_FLAG, TRANSACTIONAL_FLAG, parse_header
from protocol.stored.group_records import (
    GroupKey,
    decode_group_metadata,
    decode_key,
    decode_offset_commit,
)

if TYPE_CHECKING:
    from broker.steps import Steps
    from broker.storage.partition_log import PartitionLog
    from protocol.identifiers import Buffer

__all__ = ["GroupLoader"]

_log = structlog.get_logger("tidelog.groups")

READ_BYTES: Final = 256 * 1024
STEP_RECORDS: Final = 50
"""Taken in about a millisecond, where each is a batch of its own."""


class GroupLoader:
    """Reads one partition; `groups` is what is there once `steps` are run to their end."""

    def __init__(
        self, log: PartitionLog, topic_id: Callable[[str], bytes | None] = lambda name: None
    ) -> None:
        """Args:
        topic_id: Returns the id that a topic has where a record does not say: in older versions.
        """
        self._log, self._topic_id = log, topic_id
        self._groups: dict[str, Group] = {}
        self._latest: dict[bytes, bytes] = {}
        """Values by key, as they are stored: most are superseded, and need not be decoded."""
        self._undecided: dict[int, list[tuple[bytes, bytes | None]]] = {}
        """Of open transactions, by producer id."""
        self._offset = 0
        self.records = 0
        self.keys_unknown = 0
        """Of other kinds of groups, or of a later version."""

    def steps(self) -> Steps[None]:
        """Read all that is committed.

        Damage is said aloud and passed over: groups may be behind where they were, then, and read
        records again; without it nobody in the partition could go on at all.

        Raises:
            StorageError: the log cannot be read.
        """
        log = self._log
        self._offset = log.log_start_offset
        while self._offset < log.high_watermark:
            before = self._offset
            try:
                yield from self._read()
            except CorruptMessageError as error:
                self._report(error)
                following = self._behind_damage(self._offset)
                self._offset = log.high_watermark if following is None else following
            if self._offset <= before:
                raise StorageError(f"{log.topic_partition} does not go on behind {before}")
        latest, self._latest = self._latest, {}
        for count, (key, value) in enumerate(latest.items(), 1):
            self._decode(key, value)
            if not count % STEP_RECORDS:
                yield None

    def _report(self, error: CorruptMessageError) -> None:
        _log.error(
            "committed offsets are lost; groups may read records again",
            partition=str(self._log.topic_partition),
            error=str(error),
        )

    def _read(self) -> Steps[None]:
        """Take in some batches."""
        log = self._log
        while True:
            try:
                fetched = log.read(
                    self._offset, READ_BYTES, limit=ReadLimit.HIGH_WATERMARK, at_once=False
                )
                break
            except BytesUncheckedError as unchecked:
                yield from unchecked.steps()
        if not fetched.slices:
            self._offset = log.high_watermark
        for piece in fetched.slices:
            if piece.is_cold():
                yield piece.read_ahead
            # Of legacy segments too: a log of old Kafka's may begin with them.
            for batch, _ in iterate_as_v2(piece.read()):
                header = parse_header(batch)
                try:
                    yield from self._take(batch)
                except CorruptMessageError as error:
                    self._report(error)
                self._offset = max(self._offset, header.base_offset + header.last_offset_delta + 1)

    def _behind_damage(self, offset: int) -> int | None:
        wounds = [each.next_offset for each in self._log.damage if each.next_offset > offset]
        return min(wounds, default=None)

    def _take(self, batch: Buffer) -> Steps[None]:
        header = check_batch(batch)
        if header.attributes & CONTROL_FLAG:
            marker = decode_marker(batch)
            decided = self._undecided.pop(header.producer_id, [])
            if marker is not None and marker.is_commit:
                for key, value in decided:
                    self._keep(key, value)
            return
        is_open = bool(header.attributes & TRANSACTIONAL_FLAG)
        for record in iterate_records(batch):
            self.records += 1
            if not self.records % STEP_RECORDS:
                yield None
            if record.key is None:
                continue
            if is_open:
                undecided = self._undecided.setdefault(header.producer_id, [])
                undecided.append((record.key, record.value))
            else:
                self._keep(record.key, record.value)

    def _keep(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._latest.pop(key, None)
        else:
            self._latest[key] = value

    def _decode(self, stored_key: bytes, value: bytes) -> None:
        """Take note of what the last record of a key says."""
        try:
            key = decode_key(stored_key)
            if isinstance(key, GroupKey):
                metadata = decode_group_metadata(value)
                fill_group(self._group(key.group_id), metadata)
            elif key is not None:
                committed = offset_from_value(decode_offset_commit(value))
                if committed.topic_id == NO_UUID:
                    topic_id = self._topic_id(key.topic)
                    committed = committed._replace(topic_id=topic_id or NO_UUID)
                self._group(key.group_id).offsets.put((key.topic, key.partition), committed)
            else:
                self.keys_unknown += 1
        except StoredFormatError as error:
            partition = str(self._log.topic_partition)
            _log.error(
                "a record of a group is not understood", partition=partition, error=str(error)
            )

    def _group(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = Group(group_id)
        return group

    def groups(self) -> Iterator[Group]:
        """Yield the groups; those without metadata have offsets that nobody's group committed."""
        yield from self._groups.values()
