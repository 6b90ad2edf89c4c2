"""Cursor: the state of reading on and on from one or several partitions; no I/O.

It makes the next fetch, takes in the answers, and knows when what there was at the start has been
read. Both clients drive it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from protocol.errors import BrokerError
from protocol.limits import RESPONSE_BYTES_MAX
from tidelog.client import calls
from tidelog.client.values import FetchAnswer, FetchFrom, Message

PARTITION_BYTES_MAX: Final = 1024 * 1024
FETCH_BYTES_MAX: Final = 16 * 1024 * 1024
FOLLOW_WAIT_MS: Final = 5_000
PARTITIONS_PER_FETCH: Final = 500
"""Well below what a broker takes in one request."""


class Cursor:
    """Positions of the partitions of one topic.

    Args:
        starts: Offset to begin at, by partition.
        stops: Offset to stop before, by partition; None follows the log for ever.
        max_bytes: Bound of one partition's part of an answer.
        response_bytes_max: Bound of a whole answer.
    """

    def __init__(
        self,
        topic: str,
        starts: Mapping[int, int],
        stops: Mapping[int, int] | None,
        max_bytes: int = PARTITION_BYTES_MAX,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        self._topic, self._max_bytes = topic, max_bytes
        self._response_bytes_max = response_bytes_max
        self.positions = dict(starts)
        """The next offset of each partition: where a later reader would go on."""
        self._stops = stops
        self._first = 0

    @property
    def is_done(self) -> bool:
        return not self._unfinished()

    def _unfinished(self) -> list[int]:
        if self._stops is None:
            return list(self.positions)
        stops = self._stops
        return [part for part, offset in self.positions.items() if offset < stops.get(part, 0)]

    @property
    def wait_ms(self) -> int:
        """How long the broker may hold the next fetch back."""
        return FOLLOW_WAIT_MS if self._stops is None else 0

    def next_call(self) -> calls.Call[list[Message]]:
        """Return the next fetch; its value is what `accept` makes of the answers.

        Other partitions come first each time: none is starved.
        """
        partitions = self._unfinished()
        turn = 1 if len(partitions) <= PARTITIONS_PER_FETCH else PARTITIONS_PER_FETCH
        self._first = (self._first + turn) % len(partitions)
        turned = partitions[self._first :] + partitions[: self._first]
        sources = [
            FetchFrom(self._topic, partition, self.positions[partition], self._max_bytes)
            for partition in turned[:PARTITIONS_PER_FETCH]
        ]
        call = calls.multi_fetch(
            sources,
            max_bytes=FETCH_BYTES_MAX,
            max_wait_ms=self.wait_ms,
            response_bytes_max=self._response_bytes_max,
        )
        return calls.Call(
            call.parts, lambda frame: self.accept(call.parse(frame)), too_large=call.too_large
        )

    def accept(self, answers: list[FetchAnswer]) -> list[Message]:
        """Move on past what came and return it.

        A partition with a retriable error is asked again with the next fetch, while others move.

        Raises:
            BrokerError: a final error of a partition; or a retriable one, when nothing moved.
                What others have answered comes again.
        """
        failed = [self._error(each) for each in answers if each.error]
        moved = any(each.next_offset > self.positions[each.partition] for each in answers)
        for error in failed:
            if not error.retriable or not moved:
                raise error
        messages: list[Message] = []
        for answer in answers:
            if answer.error:
                continue
            stop = None if self._stops is None else self._stops.get(answer.partition, 0)
            if stop is None:
                messages += answer.messages
            else:
                messages += [message for message in answer.messages if message.offset < stop]
            is_empty = answer.next_offset == self.positions[answer.partition]
            if is_empty and stop is not None and answer is answers[0]:
                # The first partition of a fetch gets a batch whatever its size, if there is one.
                # So what lay below the stop was compacted away or deleted since: it is reached.
                self.positions[answer.partition] = stop
            else:
                self.positions[answer.partition] = answer.next_offset
        return messages

    def _error(self, answer: FetchAnswer) -> BrokerError:
        """Return the error of a partition, with the offset that it could not be read from."""
        error = BrokerError(answer.error)
        text = error.error_code.text.rstrip(".")
        where = f"{self._topic}-{answer.partition} at offset {self.positions[answer.partition]}"
        return BrokerError(answer.error, f"{where}: {text[:1].lower()}{text[1:]}")
