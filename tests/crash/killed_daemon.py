"""A daemon that is killed while producers, a reader, retention and the cleaner are at work."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from protocol.errors import BatchTruncatedError
from protocol.native import requests, responses, topic_changes
from protocol.record_batch import iterate_batches, iterate_records
from protocol.record_batch_builder import build_batch
from tests.crash.oracle import Message, Offsets, Oracle, UnreadableError, Wound
from tests.support.native_wire import NativeWire
from tests.support.running_broker import BrokerProcess

RECORD_BATCH: Final = 2
VALUE_BYTES_MAX: Final = 300
BATCH_BYTES_MAX: Final = 61 + 5 * (VALUE_BYTES_MAX + 40)
RETENTION_BYTES: Final = 60_000
REQUESTS_UNDER_WAY: Final = 8
OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
CLEANER_WAIT_S: Final = 20.0
PAUSE_S: Final = 0.008
"""At least so long between two requests, so that what there is can be read again after each of many
rounds; the end of the round is not waited for."""
LOAD_WAIT_S: Final = 60.0
LAST_RECORDS_MAX: Final = 100
"""So many are acknowledged at most after the cleaner was seen at work."""

TOPICS: Final = {
    "kept": {"segment.bytes": "20000"},
    "short": {"segment.bytes": "20000", "retention.bytes": str(RETENTION_BYTES)},
    "keyed": {"segment.bytes": "20000", "cleanup.policy": "compact",
              "min.cleanable.dirty.ratio": "0.01"},
}  # fmt: skip
"""Of each one partition; all of them roll all the time."""

SETTINGS: Final = (
    "topics.file_delete_delay_ms=50",
    "storage.retention_check_ms=100",
    "storage.checkpoint_interval_ms=50",
    "cleaner.backoff_ms=100",
    "cleaner.dedupe_buffer_bytes=64KiB",
)


def oracles() -> dict[str, Oracle]:
    """An oracle for each topic. What retention leaves is at least so many of the last records."""
    records_kept = RETENTION_BYTES // BATCH_BYTES_MAX - 1
    return {
        "kept": Oracle(),
        "short": Oracle(keeps_last=records_kept),
        "keyed": Oracle(compacts=True),
    }


class BehindError(Exception):
    """An offset out of range: of a reader that retention has overtaken."""


class DaemonView:
    """One partition of a running daemon, as its clients find it."""

    def __init__(self, wire: NativeWire, topic: str) -> None:
        self._wire, self._topic = wire, topic

    def offsets(self) -> Offsets:
        start, end = self._offset(-2), self._offset(-1)
        assert start is not None
        assert end is not None
        return Offsets(start, end, end, end)

    def scan(self) -> tuple[list[tuple[int, Message]], list[Wound]]:
        found: list[tuple[int, Message]] = []
        offset = self._offset(-2) or 0
        while (answer := self._fetch(offset, 1 << 20))[1] > offset:
            found += answer[0]
            offset = answer[1]
        return found, []

    def first_from(self, offset: int) -> tuple[int, Message] | None:
        while True:
            found, following = self._fetch(offset, 1)
            if found or following == offset:
                return found[0] if found else None
            offset = following

    def at_time(self, timestamp_ms: int) -> int | None:
        return self._offset(timestamp_ms)

    def fetch(self, offset: int) -> tuple[list[tuple[int, Message]], int]:
        """Return what there is from `offset` on, or the log start, and where to go on."""
        while True:
            try:
                return self._fetch(offset, 1 << 18)
            except BehindError:
                offset, behind = self._offset(-2) or 0, offset
                assert offset > behind, (self._topic, offset, behind)

    def _fetch(self, offset: int, max_bytes: int) -> tuple[list[tuple[int, Message]], int]:
        send = self._wire.fetch(self._topic, 0, offset, format=RECORD_BATCH, max_bytes=max_bytes)
        if send.error == CORRUPT_MESSAGE:
            raise UnreadableError(f"{self._topic} at {offset}")
        if send.error == OFFSET_OUT_OF_RANGE:
            raise BehindError(f"{self._topic} at {offset}")
        assert send.error == 0, (send.error, self._topic, offset)
        found: list[tuple[int, Message]] = []
        following = offset
        try:
            for position, header in iterate_batches(send.message_set):
                following = header.next_offset
                for record in iterate_records(send.message_set, position):
                    if record.offset >= offset:
                        message = Message(record.timestamp, record.key, record.value)
                        found.append((record.offset, message))
        except BatchTruncatedError:
            pass  # the last one is cut by `max_bytes`
        return found, following

    def _offset(self, timestamp: int) -> int | None:
        self._wire.send(requests.encode_offsets(self._topic, 0, timestamp, 1))
        error, offsets = responses.decode_offsets_response(self._wire.receive())
        if error == CORRUPT_MESSAGE:
            raise UnreadableError(f"{self._topic} at time {timestamp}")
        assert error == 0, (error, self._topic, timestamp)
        return offsets[0] if offsets else None


class Progress:
    """What the producers of a round have got acknowledged, for who waits for it."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.is_over = False
        self._changed = threading.Condition()

    def note(self, count: int) -> None:
        with self._changed:
            self.acknowledged += count
            self._changed.notify_all()

    def end(self) -> None:
        """The round is over, or a thread of it has ended: nobody need wait any more."""
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Return after so long, or at the round's end."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over, seconds)

    def wait_until(self, is_reached: Callable[[], bool], seconds: float) -> bool:
        """Return whether it was reached; asked at each acknowledgement."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over or is_reached(), seconds)
            return is_reached()


class Producer(threading.Thread):
    """Produces to one topic with acks=all, some requests ahead of their answers, until it ends."""

    def __init__(
        self, address: str, topic: str, oracle: Oracle, seed: int, progress: Progress
    ) -> None:
        super().__init__(daemon=True)
        self._progress = progress
        self.fault: BaseException | None = None
        self._wire, self._topic, self._oracle = NativeWire(address), topic, oracle
        self._random = Random(seed)
        self._under_way: deque[list[Message]] = deque()

    def run(self) -> None:
        with self._wire:
            try:
                while True:
                    self._send()
                    self._progress.pause(PAUSE_S)
                    if len(self._under_way) >= REQUESTS_UNDER_WAY:
                        self._take()
            except OSError:
                pass
            except BaseException as error:
                self.fault = error
            self._progress.end()
            try:
                while self._under_way:  # what was answered before the end counts, too
                    self._take()
            except OSError:
                pass
            except BaseException as error:
                self.fault = error

    def _send(self) -> None:
        random, now_ms, number = self._random, time.time_ns() // 1_000_000, len(self._oracle.sent)
        messages = []
        for n in range(random.randint(1, 5)):
            filling = bytes(random.randrange(VALUE_BYTES_MAX - 20))
            value = b"%d.%d" % (number, n) + filling
            messages.append(Message(now_ms, b"key%d" % random.randrange(40), value))
        self._oracle.sends(messages)
        self._under_way.append(messages)
        batch = build_batch([(n, *each) for n, each in enumerate(messages)])
        self._wire.send_produce(self._topic, 0, batch, format=RECORD_BATCH)

    def _take(self) -> None:
        answer = self._wire.receive_produced()
        assert answer.error == 0, answer
        messages = self._under_way.popleft()
        for offset, message in enumerate(messages, answer.base_offset):
            self._oracle.promises(offset, message)
        self._progress.note(len(messages))


class Reader(threading.Thread):
    """Reads all topics again and again, from near their ends; what it gets must not be gone."""

    def __init__(self, address: str, topics: list[str]) -> None:
        super().__init__(daemon=True)
        self.seen: dict[str, dict[int, Message]] = {topic: {} for topic in topics}
        self.fault: BaseException | None = None
        self._wire = NativeWire(address)

    def run(self) -> None:
        try:
            with self._wire:
                views = {topic: DaemonView(self._wire, topic) for topic in self.seen}
                positions = {topic: each.offsets().log_end for topic, each in views.items()}
                while True:
                    for topic, view in views.items():
                        found, positions[topic] = view.fetch(positions[topic])
                        self.seen[topic].update(found)
        except OSError:
            pass
        except BaseException as error:
            self.fault = error


class KilledDaemon:
    """A daemon that is started, used, killed, and looked at; round after round on the same data."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.broker = BrokerProcess(directory, *SETTINGS)
        self.oracles = oracles()
        self.acknowledged = self.seen = 0
        self.cleanings = 0
        """How often it was killed when the cleaner had just begun to write."""
        self._random = Random(seed)

    def __enter__(self) -> KilledDaemon:
        self.broker.start()
        with NativeWire(self.broker.address) as wire:
            for topic, settings in TOPICS.items():
                wire.send(requests.encode_create_topic(topic, 1, settings))
                error, message = responses.decode_status_response(wire.receive())
                assert error == 0, message
        return self

    def __exit__(self, *error: object) -> None:
        self.broker.__exit__(*error)

    def round(self, records: int, *, until_cleaning: bool = False) -> None:
        """Load it, delete some records meanwhile, kill it, start it, check every promise.

        Args:
            records: So many are acknowledged, then it is killed.
            until_cleaning: Before the last of them, wait until the cleaner writes.
        """
        seed = self._random.randrange(1 << 30)
        address, progress = self.broker.address, Progress()
        producers = [
            Producer(address, topic, oracle, seed, progress)
            for topic, oracle in self.oracles.items()
        ]
        reader = Reader(address, list(TOPICS))
        for thread in (*producers, reader):
            thread.start()
        progress.wait_until(lambda: progress.acknowledged >= records // 2, LOAD_WAIT_S)
        self._delete_records()
        if until_cleaning:
            self.cleanings += progress.wait_until(self._cleaner_writes, CLEANER_WAIT_S)
            records = progress.acknowledged + self._random.randrange(LAST_RECORDS_MAX)
        is_loaded = progress.wait_until(lambda: progress.acknowledged >= records, LOAD_WAIT_S)
        self.broker.kill()
        progress.end()
        for thread in (*producers, reader):
            thread.join(30)
            assert not thread.is_alive()
            if thread.fault is not None:
                raise thread.fault
        assert is_loaded, "the producers were held up"
        self.acknowledged += progress.acknowledged
        for topic, seen in reader.seen.items():
            self.seen += len(seen)
            for offset, message in seen.items():
                self.oracles[topic].promises(offset, message)
        self.broker.start()
        self.check()

    def _cleaner_writes(self) -> bool:
        """Whether the cleaner, whose process takes a second to start, has a file under way."""
        directory = self.broker.data_directory / "keyed-0"
        return any(each.name.endswith((".cleaned", ".swap")) for each in os.scandir(directory))

    def _delete_records(self) -> None:
        """Move the log start of one topic to near what is there; the answer is a promise."""
        oracle = self.oracles["short"]
        with NativeWire(self.broker.address) as wire:
            offsets = DaemonView(wire, "short").offsets()
            offset = max(offsets.log_start, offsets.high_watermark - 20)
            oracle.may_delete(offset)
            wire.send(topic_changes.encode_delete_records("short", [(0, offset)]))
            _, results = topic_changes.decode_delete_records_response(wire.receive())
            if results[0].error == 0:
                oracle.deletes(offset)

    def check(self) -> None:
        """Hold what is there against what was promised."""
        with NativeWire(self.broker.address) as wire:
            for topic, oracle in self.oracles.items():
                try:
                    oracle.check(DaemonView(wire, topic))
                except AssertionError as error:
                    error.add_note(f"topic {topic}")
                    raise
                _forget_old(oracle, DaemonView(wire, topic).offsets().log_start)


def _forget_old(oracle: Oracle, log_start: int) -> None:
    """Keep the oracle small: what lies below the log start stays deleted, or was allowed to be."""
    oracle.promised = {at: each for at, each in oracle.promised.items() if at >= log_start}
