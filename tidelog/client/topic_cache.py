"""TopicCache: how many partitions the topics have, as far as a producer needs to know."""

from __future__ import annotations

from typing import Final

from protocol.error_codes import ErrorCode
from tidelog.client import calls
from tidelog.client.partitioner import Partitioner
from tidelog.client.values import TopicInfo

REFRESH_S: Final = 60.0
ASK_AGAIN_S: Final = 1.0

NOT_YET_S: Final = 0.05
"""How long a topic that does not exist is taken for one of one partition: producing makes it."""


class TopicCache:
    """Chooses partitions; says when it wants to ask the broker again."""

    def __init__(self) -> None:
        self._counts: dict[str, tuple[int, float]] = {}
        self._partitioner = Partitioner()

    def question(self, topic: str, now_s: float) -> calls.Call[list[TopicInfo]] | None:
        """Return what to ask before `partition` may be called, or None if that is known."""
        known = self._counts.get(topic)
        if known is not None and known[1] > now_s:
            return None
        return calls.topics([topic])

    def learn(self, topic: str, answer: list[TopicInfo], now_s: float) -> None:
        """Take in the answer. A topic that does not exist has partition 0: producing makes it.

        Raises:
            BrokerError: the topic cannot be produced to.
        """
        info = answer[0]
        if info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._counts[topic] = (1, now_s + NOT_YET_S)
            return
        calls.check(info.error, topic)
        self._counts[topic] = (len(info.partitions), now_s + REFRESH_S)

    def keep(self, topic: str, now_s: float) -> bool:
        """Go on with what is known although asking again has failed; False: nothing is known."""
        known = self._counts.get(topic)
        if known is not None:
            self._counts[topic] = (known[0], now_s + ASK_AGAIN_S)
        return known is not None

    def partition(self, topic: str, key: bytes | None) -> int:
        """Return the partition for a message."""
        return self._partitioner.partition(key, self._counts[topic][0])
