"""FilePlace: a path that is made when it is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class FilePlace(NamedTuple):
    """Where a file is. Of the indexes of thousands of sealed segments few are ever opened, and a
    path costs as much as all else that is made for one at start."""

    directory: Path
    name: str

    @property
    def path(self) -> Path:
        return self.directory / self.name
