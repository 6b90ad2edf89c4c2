"""BrokerSender: record batches to partitions of a broker, acknowledged as committed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from protocol.errors import BrokerError, ErrorCode
from protocol.identifiers import Buffer, TopicPartition
from protocol.limits import RESPONSE_BYTES_MAX
from tidelog.client import ConnectionLostError, calls
from tidelog.client.address import Address
from tidelog.client.blocking_connection import BlockingConnection
from tidelog.spark.broker_link import ANSWER_MAX_S, Waits, may_pass

__all__ = ["BatchSet", "BrokerSender"]

ACKS_ALL: Final = -1
COMMIT_MAX_MS: Final = 30_000
"""How long the broker may take to commit a set."""


class BatchSet(NamedTuple):
    """Whole record batches for one partition."""

    partition: TopicPartition
    data: Buffer


class BrokerSender:
    """One connection to a broker; waits for one that is restarted."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection = BlockingConnection(
            Address.parse(address), timeout_s=ANSWER_MAX_S, response_bytes_max=RESPONSE_BYTES_MAX
        )

    def __enter__(self) -> BrokerSender:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(self, sets: Iterable[BatchSet]) -> set[TopicPartition]:
        """Append sets of different partitions, and wait until all are committed.

        A set whose answer was lost, or that was not committed in time, is sent again.

        Returns:
            The partitions whose sets are refused whole, as a batch is larger than its topic takes.

        Raises:
            BrokerUnreachableError: there was no broker for as long as a restart may take.
            BrokerError: the broker refuses a set for another reason.
        """
        left = list(sets)
        assert len({each.partition for each in left}) == len(left), "else they could change places"
        waits = Waits(self._address)
        too_large: set[TopicPartition] = set()
        while left:
            outcomes = self._outcomes(left)
            failed = [
                (each, error)
                for each, error in zip(left, outcomes, strict=True)
                if isinstance(error, Exception)
            ]
            too_large |= {each.partition for each, error in failed if _is_too_large(error)}
            failed = [(each, error) for each, error in failed if not _is_too_large(error)]
            for _, error in failed:
                if not may_pass(error):
                    raise error
            left = [each for each, _ in failed]
            if failed:
                waits.wait(failed[0][1])
        return too_large

    def _outcomes(self, sets: list[BatchSet]) -> list[object]:
        requests = [
            calls.produce(*each.partition, each.data, acks=ACKS_ALL, timeout_ms=COMMIT_MAX_MS)
            for each in sets
        ]
        try:
            return self._connection.call_all(requests, extra_wait_s=COMMIT_MAX_MS / 1_000)
        except ConnectionLostError as error:
            return [error] * len(sets)


def _is_too_large(error: Exception) -> bool:
    return isinstance(error, BrokerError) and error.number == ErrorCode.MESSAGE_TOO_LARGE
