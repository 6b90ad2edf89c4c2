"""World: one log on a disk in memory, used as a broker does, while an oracle is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import msgspec

from broker.clock import ManualClock
from broker.storage.housekeeping import Housekeeping
from broker.storage.log_config import CleanupPolicy, FlushPolicy, LogConfig
from broker.storage.log_reader import ReadLimit
from broker.storage.offset_metadata import FetchData
from broker.storage.partition_log import PartitionLog
from protocol.errors import CorruptMessageError
from protocol.record_batch import iterate_batches, iterate_records
from protocol.record_batch_builder import build_batch
from tests.crash.oracle import Message, Offsets, Oracle, UnreadableError, ViolationError, Wound
from tests.support.cleaning import clean_storage
from tests.support.fake_disk import FakeDisk
from tests.support.log_storage import SMALL_SEGMENTS, LogStorage, records_of

READ_BYTES: Final = 1 << 20
DELETING: Final = msgspec.structs.replace(
    SMALL_SEGMENTS, segment_bytes=320, retention_ms=10_000, file_delete_delay_ms=100
)
COMPACTING: Final = msgspec.structs.replace(
    SMALL_SEGMENTS,
    segment_bytes=320,
    cleanup_policy=CleanupPolicy.COMPACT,
    file_delete_delay_ms=1_000,
    delete_retention_ms=50_000,
)


class LogView:
    """An open log, as its readers find it; an oracle looks through it."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log

    def offsets(self) -> Offsets:
        log = self._log
        return Offsets(
            log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset,
            log.recovery_point, log.durable_offset, log.config.flush_policy is FlushPolicy.COMMIT,
        )  # fmt: skip

    def scan(self) -> tuple[list[tuple[int, Message]], list[Wound]]:
        log = self._log
        found: list[tuple[int, Message]] = []
        wounds: set[Wound] = set()
        offset = log.log_start_offset
        while offset < log.high_watermark:
            try:
                data = log.read(offset, READ_BYTES)
            except CorruptMessageError as error:
                wound = self._wound_at(offset, error)
                wounds.add(wound)
                offset = wound.next_offset
                continue
            if not data.slices:
                break
            next_offset = offset
            for at, message, following in _messages(data):
                next_offset = following
                if at >= offset and message is not None:
                    found.append((at, message))
            if next_offset <= offset:
                raise ViolationError(f"a read from {offset} answers what is below it")
            offset = next_offset
        wounds.update(
            Wound(each.first_offset, each.next_offset)
            for each in log.damage
            if each.first_offset < each.next_offset
        )
        return found, sorted(wounds)

    def first_from(self, offset: int) -> tuple[int, Message] | None:
        while True:
            try:
                data = self._log.read(offset, 1)
            except CorruptMessageError as error:
                raise UnreadableError(str(error)) from None
            following = offset
            for at, message, next_offset in _messages(data):
                if at >= offset and message is not None:
                    return at, message
                following = next_offset
            if following <= offset:
                return None
            offset = following

    def at_time(self, timestamp_ms: int) -> int | None:
        try:
            found = self._log.offset_for_timestamp(timestamp_ms)
        except CorruptMessageError as error:
            raise UnreadableError(str(error)) from None
        return None if found is None else found[1]

    def _wound_at(self, offset: int, error: CorruptMessageError) -> Wound:
        for each in self._log.damage:
            if each.first_offset <= offset < each.next_offset:
                return Wound(each.first_offset, each.next_offset)
        raise ViolationError(f"a read from {offset} fails, no wound is reported there: {error}")


def _messages(data: FetchData) -> Iterator[tuple[int, Message | None, int]]:
    """Yield offset, message (None: a marker) and the offset after its batch, of each record.

    The CRC is not looked at: a wrong byte must show.
    """
    for piece in data.slices:
        content = piece.read()
        for position, header in iterate_batches(content):
            following = header.next_offset
            if not header.record_count:
                yield header.base_offset, None, following
            for record in iterate_records(content, position):
                message = Message(record.timestamp, record.key, record.value)
                yield record.offset, None if header.is_control else message, following


class World:
    """A log that is used, and an oracle that is told. Every message differs from all others."""

    def __init__(
        self,
        config: LogConfig = DELETING,
        seed: int = 0,
        *,
        disk: FakeDisk | None = None,
        clock: ManualClock | None = None,
        oracle: Oracle | None = None,
    ) -> None:
        """Start on an empty disk, or on what a crash has left on one."""
        self.random = Random(seed)
        compacts = config.cleanup_policy.compacts
        self.oracle = oracle if oracle is not None else Oracle(compacts=compacts)
        self._number = len(self.oracle.sent)
        self.written: dict[int, Message] = {}
        """By offset, what was appended and is not acknowledged yet."""
        self.storage = LogStorage(config, seed=seed, disk=disk, clock=clock)
        self.housekeeping = Housekeeping(self.storage.directory)

    @property
    def log(self) -> PartitionLog:
        return self.storage.log

    # --- what is done -------------------------------------------------------------------------

    def append(self, count: int, keys: int = 5) -> None:
        """Append batches of one to three records."""
        for _ in range(count):
            now_ms = self.storage.clock.now_ms()
            messages = []
            for _ in range(self.random.choice((1, 1, 1, 3))):
                self._number += 1
                key = b"key%d" % self.random.randrange(keys)
                is_tombstone = self.random.random() < 0.15
                number = b"%d" % self._number
                # A tombstone has no value to tell it from others; its timestamp does.
                timestamp = now_ms + self._number % 1_000
                messages.append(Message(timestamp, key, None if is_tombstone else number))
            self.oracle.sends(messages)
            records = [(n, *each) for n, each in enumerate(messages)]
            first = self.log.append(batch_of(records)).first_offset
            self.written.update(enumerate(messages, first))
            if self.log.follows_log_end:
                self.acknowledge()

    def flush(self) -> None:
        """One group of group commit; what it covers is acknowledged."""
        self.storage.flush()
        self.acknowledge()

    def acknowledge(self) -> None:
        """Answer all producers that wait for the high watermark."""
        committed = [at for at in self.written if at < self.log.high_watermark]
        for offset in committed:
            self.oracle.promises(offset, self.written.pop(offset))

    def housekeep(self, ms: int = 1_000) -> None:
        """Let time pass; do what is due then: retention, unlinking, checkpoints."""
        self.storage.clock.advance(ms=ms)
        config = self.log.config
        if config.cleanup_policy.deletes:
            old = self.storage.clock.now_ms() - config.retention_ms
            known = self.oracle.promised | self.written
            young = [at for at, each in known.items() if each.timestamp_ms >= old]
            self.oracle.may_delete(min(young, default=self.log.log_end_offset))
        self.housekeeping.run_due(self.storage.clock.monotonic())

    def delete_records(self, offset: int) -> None:
        """A client's request; it is answered when that is in the checkpoint."""
        self.oracle.may_delete(offset)
        self.log.advance_log_start(offset)
        answers: list[bool] = []
        self.housekeeping.checkpoint_soon(answers.append)
        self.housekeeping.run_due(self.storage.clock.monotonic())
        if answers == [True]:
            self.oracle.deletes(offset)

    def truncate(self, offset: int) -> None:
        """Cut, as a follower does. A batch that spans the offset goes as a whole."""
        if offset < self.log.log_end_offset:
            data = self.log.read(offset, 1, limit=ReadLimit.LOG_END)
            offset = min([offset, *(at for at, _ in records_of(data))])
        self.oracle.cuts(offset)
        self.written = {at: each for at, each in self.written.items() if at < offset}
        self.log.truncate_to(offset)

    def clean(self, **settings: int) -> None:
        """Compact what can be."""
        clean_storage(self.storage, **settings)

    def stop(self) -> None:
        """Stop in order; nothing that was written may be gone afterwards."""
        self.storage.directory.close()
        for offset in list(self.written):
            self.oracle.promises(offset, self.written.pop(offset))

    def start(self) -> None:
        self.storage.restarted()
        self.housekeeping = Housekeeping(self.storage.directory)

    def view(self) -> LogView:
        """The log as its readers find it."""
        return LogView(self.log)

    def check(self) -> None:
        """Read everything, and hold it against what is known."""
        self.oracle.check(self.view())

    def goes_on(self) -> None:
        """What is started after a fault takes appends, and stops and starts in order."""
        self.written = {}
        self.append(2)
        self.flush()
        self.check()
        self.stop()
        self.start()
        self.check()

    def fork(self) -> tuple[FakeDisk, ManualClock, Oracle]:
        """Return what there is at this moment; this world goes on."""
        clock = ManualClock(self.storage.clock.now_ms())
        return self.storage.disk.fork(clock), clock, self.oracle.copy()


def batch_of(records: list[tuple[int, int, bytes | None, bytes | None]]) -> memoryview:
    """A produced batch, writable."""
    return memoryview(bytearray(build_batch(records)))
