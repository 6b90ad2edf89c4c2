"""Which failed calls are worth repeating, and after how long."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

from protocol.errors import BrokerError, ErrorCode
from tidelog.client.calls import Call
from tidelog.client.errors import ConnectionLostError

BACKOFF_FIRST_S: Final = 0.05
BACKOFF_MAX_S: Final = 1.0


def is_retriable(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, BrokerError):
        return error.retriable
    return isinstance(error, ConnectionLostError)


def is_unknown_topic(error: Exception) -> bool:
    """Whether the broker does not have the topic, or not that partition of it."""
    return isinstance(error, BrokerError) and error.number == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def is_repeatable(call: Call[Any], error: Exception) -> bool:
    """Whether to send a call again that only asks.

    A topic that is not there will not be there a moment later: only producing makes it.
    """
    return call.is_repeatable and is_retriable(error) and not is_unknown_topic(error)


def backoffs_s(retries: int | None = None) -> Iterator[float]:
    """Yield the waits before each of `retries` repeats; None never ends."""
    for exponent in itertools.count() if retries is None else range(retries):
        yield min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(exponent, 10))
