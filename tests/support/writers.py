"""Writers: threads that produce to a broker until it is gone, and remember what it acknowledged."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType

from protocol.native.responses import ProduceResponse
from tests.support.native_wire import NativeWire, message_set

REQUESTS_UNDER_WAY = 8


class Writer:
    """Produces to one partition with acks=all, some requests ahead of their answers.

    Attributes:
        acknowledged: Value by offset, of every message whose answer came.
        errors: Error codes that came instead.
    """

    def __init__(self, address: str, topic: str, partition: int, name: str) -> None:
        self.topic, self.partition = topic, partition
        self.acknowledged: dict[int, bytes] = {}
        self.errors: list[int] = []
        self._wire, self._name = NativeWire(address), name
        self._count = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for(self, count: int) -> None:
        """Wait until so many messages are acknowledged."""
        with self._count:
            assert self._count.wait_for(lambda: len(self.acknowledged) >= count, 30)

    def join(self) -> None:
        """Wait until the connection has ended."""
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        under_way: deque[list[bytes]] = deque()
        number = 0
        with self._wire:
            try:
                while True:
                    values = [b"%s %d.%d" % (self._name.encode(), number, n) for n in range(3)]
                    self._send(values, number % 3)
                    under_way.append(values)
                    number += 1
                    if len(under_way) >= REQUESTS_UNDER_WAY:
                        self._take(under_way.popleft(), self._wire.receive_produced())
            except OSError:
                pass
            try:
                while under_way:  # what was answered before the connection ended counts, too
                    self._take(under_way.popleft(), self._wire.receive_produced())
            except OSError:
                pass

    def _send(self, values: list[bytes], format: int) -> None:
        produced = message_set(values, format)
        self._wire.send_produce(self.topic, self.partition, produced, format=format)

    def _take(self, values: list[bytes], answer: ProduceResponse) -> None:
        with self._count:
            if answer.error:
                self.errors.append(answer.error)
            else:
                self.acknowledged.update(enumerate(values, answer.base_offset))
            self._count.notify_all()


class Writers:
    """A writer for each partition of a topic; all have ended when it is left."""

    def __init__(self, address: str, topic: str, partitions: int, name: str) -> None:
        self.all = [Writer(address, topic, number, name) for number in range(partitions)]

    def __enter__(self) -> Writers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            for writer in self.all:
                writer.join()

    def wait_for(self, count: int) -> None:
        """Wait until each has so many messages acknowledged."""
        for writer in self.all:
            writer.wait_for(count)
