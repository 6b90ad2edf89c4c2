"""BrokerLink: a client that waits for a broker which is restarted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from protocol.errors import BrokerError, ErrorCode
from tidelog.client import Client, ConnectionLostError
from tidelog.client.address import Address
from tidelog.client.retrying import backoffs_s, is_retriable, is_unknown_topic
from tidelog.segments.errors import OptionError
from tidelog.spark.errors import BrokerUnreachableError

__all__ = ["BrokerLink", "Waits", "checked_address", "may_pass"]

T = TypeVar("T")

UNREACHABLE_MAX_S: Final = 30.0
"""How long a broker may be gone: a restart after a crash takes some seconds."""
ANSWER_MAX_S: Final = 15.0


def checked_address(text: str | None) -> str:
    """Return the value of option `broker`. OptionError if it is missing, or no host:port."""
    if text is None:
        raise OptionError("option broker is missing: host:port of the broker's native listener")
    try:
        return str(Address.parse(text))
    except ValueError as error:
        raise OptionError(f"option broker: {error}") from None


class BrokerLink:
    """One connection to a broker.

    Args:
        address: host:port.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._client = Client(address, timeout_s=ANSWER_MAX_S, retries=0)

    def __enter__(self) -> BrokerLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def ask(self, question: Callable[[Client], T]) -> T:
        """Return what a client's call does; again and again while the broker cannot be reached.

        Raises:
            BrokerUnreachableError: it was not for UNREACHABLE_MAX_S.
            BrokerError: the broker refuses; or goes on doing so, if that could have passed.
        """
        waits = Waits(self.address)
        while True:
            try:
                return question(self._client)
            except (BrokerError, ConnectionLostError) as error:
                if not may_pass(error):
                    raise
                waits.wait(error)


class Waits:
    """The waits between the attempts at one thing, which have an end."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._backoffs: Iterator[float] = backoffs_s()
        self._deadline = time.monotonic() + UNREACHABLE_MAX_S

    def wait(self, error: Exception) -> None:
        """Wait a moment. The error itself, or BrokerUnreachableError, if it has been too long."""
        if time.monotonic() >= self._deadline:
            if isinstance(error, ConnectionLostError):
                raise BrokerUnreachableError(
                    self._address, UNREACHABLE_MAX_S, str(error)
                ) from error
            raise error
        time.sleep(next(self._backoffs))


def may_pass(error: Exception) -> bool:
    """Say whether the same may succeed a moment later; damage and missing topics stay."""
    is_damage = isinstance(error, BrokerError) and error.number == ErrorCode.CORRUPT_MESSAGE
    return is_retriable(error) and not is_unknown_topic(error) and not is_damage
