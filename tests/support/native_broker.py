"""A broker without sockets, threads, disk or time: what native requests get for an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from broker.config import Config
from broker.metrics import Metrics, RequestMetrics
from broker.native_api.native_api import NativeApi
from broker.network.answers import Answer, PendingResponse
from broker.partition import Partition
from broker.partition_manager import PartitionManager
from broker.topic_registry import IN_MEMORY
from protocol.identifiers import Buffer
from protocol.native import requests, responses, topic_changes, transactions
from protocol.native.responses import MessageSetSend, ProduceResponse
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from tests.support.fake_disk import FakeDisk
from tests.support.manual_loop import HeldExecutor, InlineExecutor, ManualLoop

DATA = Path("/data")
CLOCK_START_MS = 1_700_000_000_000
COMMIT, INTERVAL, OS = ({"flush.policy": policy} for policy in ("commit", "interval", "os"))


class FakeConnection:
    """What handlers ask of a connection."""

    peer = "203.0.113.9:4242"

    def __init__(self) -> None:
        self.closed: list[tuple[str, str]] = []
        self.waiting: list[PendingResponse] = []

    def close(self, reason: str, *, detail: str = "") -> None:
        self.closed.append((reason, detail))

    def response_completed(self) -> None:
        """Called when an answer is complete, or could be made: here, each is the first."""
        for pending in self.waiting:
            pending.make_now()
        self.waiting = [pending for pending in self.waiting if not pending.is_complete]


class Sent:
    """One request and what became of it."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @property
    def is_waiting(self) -> bool:
        return isinstance(self._answer, PendingResponse) and not self._answer.is_complete

    @property
    def pauses_reading(self) -> bool:
        return isinstance(self._answer, PendingResponse) and self._answer.pauses_reading

    def abandon(self) -> None:
        """The client goes away."""
        assert isinstance(self._answer, PendingResponse)
        self._answer.abandon()

    @property
    def whole(self) -> bytes | None:
        """The whole answer; None: there is none."""
        assert not self.is_waiting, "no answer yet"
        answer: Any = self._answer
        if isinstance(answer, PendingResponse):
            answer = answer.answer
        return b"".join(answer) if isinstance(answer, list) else answer

    @property
    def frame(self) -> bytes:
        """The answer without its total length, which must be right."""
        data = self.whole
        assert data is not None, "no answer"
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        return data[4:]

    @property
    def error(self) -> int:
        return int.from_bytes(self.frame[:2], "big", signed=True)

    @property
    def produced(self) -> ProduceResponse:
        return responses.decode_produce_response(self.frame)

    @property
    def multi_produced(self) -> list[ProduceResponse]:
        error, answers = responses.decode_multi_produce_response(self.frame)
        assert error == 0
        return answers

    @property
    def fetched(self) -> MessageSetSend:
        return responses.decode_message_set_send(self.frame)

    @property
    def multi_fetched(self) -> tuple[int, list[MessageSetSend]]:
        return responses.decode_multi_message_set_send(self.frame)

    @property
    def offsets(self) -> tuple[int, list[int]]:
        return responses.decode_offsets_response(self.frame)

    @property
    def transactions(self) -> transactions.TransactionsAnswer:
        return transactions.decode_transactions_response(self.frame)

    @property
    def topics(self) -> tuple[int, list[responses.TopicDescription]]:
        return responses.decode_topics_response(self.frame)

    @property
    def deleted(self) -> tuple[int, list[topic_changes.DeletedRecords]]:
        return topic_changes.decode_delete_records_response(self.frame)

    @property
    def status(self) -> tuple[int, str]:
        return responses.decode_status_response(self.frame)


class NativeBroker:
    """A broker whose disk and clock are the test's. Close it, or use it in a `with`."""

    def __init__(
        self,
        *,
        disk: FakeDisk | None = None,
        registry: Path = IN_MEMORY,
        hold_flush: bool = False,
        hold_threads: bool = False,
        settings: Mapping[str, Any] | None = None,
        data_dirs: tuple[str, ...] = (str(DATA),),
        allow_missing_dirs: tuple[str, ...] = (),
    ) -> None:
        self.loop = ManualLoop()
        self.clock = self.loop.clock
        self.disk = disk if disk is not None else FakeDisk(clock=self.clock)
        self.flushes, self.jobs = HeldExecutor(), HeldExecutor()
        self.metrics = Metrics()
        self.fatal: list[OSError] = []
        self.config = config_of(settings or {}, data_dirs, allow_missing_dirs)
        self.manager = PartitionManager(
            self.config,
            loop=self.loop,
            disk=self.disk,
            clock=self.clock,
            metrics=self.metrics,
            on_fatal=self.fatal.append,
            maps_files=False,
            flush_executor=self.flushes if hold_flush else InlineExecutor(),
            registry_executor=InlineExecutor(),
            registry_path=registry,
            watch_executor=InlineExecutor(),
        )
        self.api = NativeApi(
            self.manager,
            loop=self.loop,
            clock=self.clock,
            executor=self.jobs if hold_threads else InlineExecutor(),
            limits=self.config.limits,
            metrics=self.metrics,
            maps_slices=False,
        )
        self.connection = FakeConnection()
        self.session = self.api.session(self.connection)  # type: ignore[arg-type]

    def open(self) -> NativeBroker:
        self.loop.run(self.manager.open())
        return self

    def close(self) -> None:
        self.flushes.follow()  # a stop flushes what it adds
        self.loop.run(self.manager.close())
        self.loop.close()

    def kill(self) -> None:
        """End as a killed process does: nothing is saved."""
        self.manager.flusher.stop()
        registry = self.manager.store._open_registry
        if registry is not None:
            registry.close()  # its changes are on disk already; only its lock goes
        self.loop.close()

    def __enter__(self) -> NativeBroker:
        return self.open()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and not self.fatal and not self.loop.is_closed():
            self.close()
        elif not self.loop.is_closed():
            self.loop.close()

    # --- requests -------------------------------------------------------------------------------

    def send(self, *request: Buffer, settle: bool = True) -> Sent:
        """Send one whole request; with `settle`, run the loop until it comes to rest."""
        frame = memoryview(bytearray(b"".join(request))[4:])
        answer, _, position = self.session.handle_frames(
            frame,
            0,
            len(frame),
            len(frame),
            self.connection,  # type: ignore[arg-type]
        )
        assert position == len(frame)
        if isinstance(answer, PendingResponse):
            answer.attach(self.connection)  # type: ignore[arg-type]
            self.connection.waiting.append(answer)
        frame[:] = b"\xee" * len(frame)  # its memory serves the next request now
        sent = Sent(answer)
        if settle:
            self.loop.settle()
        return sent

    def send_together(self, *sent: Sequence[Buffer]) -> list[Answer]:
        """Send whole requests that come in one read; return the answers, one for each run."""
        frames = memoryview(bytearray(b"".join(part for each in sent for part in each)))
        answers: list[Answer] = []
        position = 0
        while position < len(frames):
            start = position + 4
            frame_end = start + int.from_bytes(frames[position:start], "big")
            answer, count, position = self.session.handle_frames(
                frames,
                start,
                frame_end,
                len(frames),
                self.connection,  # type: ignore[arg-type]
            )
            assert count
            assert frame_end <= position <= len(frames)
            if isinstance(answer, PendingResponse):
                answer.attach(self.connection)  # type: ignore[arg-type]
                self.connection.waiting.append(answer)
            answers.append(answer)
        frames[:] = b"\xee" * len(frames)
        self.loop.settle()
        return answers

    def create_topic(
        self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        assert self.send(requests.encode_create_topic(name, partitions, settings)).status == (0, "")

    def produce(
        self,
        topic: str,
        message_set: Buffer,
        *,
        partition: int = 0,
        acks: int = 1,
        timeout_ms: int = 1_000,
        message_format: int = 2,
        settle: bool = True,
    ) -> Sent:
        parts = requests.encode_produce(
            topic, partition, acks, timeout_ms, message_format, message_set
        )
        return self.send(*parts, settle=settle)

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        max_bytes: int = 1 << 20,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        message_format: int = 2,
        settle: bool = True,
    ) -> Sent:
        request = requests.encode_fetch(
            topic, partition, offset, max_bytes, min_bytes, max_wait_ms, message_format
        )
        return self.send(request, settle=settle)

    def partition(self, topic: str, number: int = 0) -> Partition:
        return self.manager.partition(topic, number)

    def requests(self, name: str) -> RequestMetrics:
        return self.metrics.requests("native", name)


def config_of(
    settings: Mapping[str, Any], data_dirs: tuple[str, ...], allow_missing_dirs: tuple[str, ...]
) -> Config:
    """The default configuration, with `settings` by key path."""
    config = Config()
    values = {
        "topics.segment_index_bytes": 64 * 1024,  # a fake disk keeps sparse bytes in memory
        "storage.data_dirs": data_dirs,
        "daemon.allow_missing_dirs": allow_missing_dirs,
        **settings,
    }
    for path, value in values.items():
        table, _, name = path.partition(".")
        changed = msgspec.structs.replace(getattr(config, table), **{name: value})
        config = msgspec.structs.replace(config, **{table: changed})
    return config


def batch(*values: bytes | None, key: bytes | None = None, now_ms: int | None = None) -> bytes:
    """A record batch as a producer sends it."""
    timestamp = CLOCK_START_MS if now_ms is None else now_ms
    records = [Record(n, timestamp, key, value) for n, value in enumerate(values)]
    return build_batch(records)
