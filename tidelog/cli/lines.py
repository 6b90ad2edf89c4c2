"""Lines: from bytes that arrive in pieces to lines; they end at \\n only, so \\r is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from protocol.limits import FRAME_BYTES_MAX

READ_BYTES: Final = 256 * 1024


class LineTooLongError(Exception):
    """A line that no request could carry."""

    def __init__(self, line_number: int) -> None:
        super().__init__(line_number)
        self.line_number = line_number

    def __str__(self) -> str:
        return f"it has more than {FRAME_BYTES_MAX} bytes; what follows it was not read"


def iterate_lines(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield the lines without their newline; a last one without newline too, if it is not empty.

    Args:
        read: Returns up to so many bytes, as soon as there are some; b"" at the end.

    Raises:
        LineTooLongError: nothing is kept beyond FRAME_BYTES_MAX.
    """
    started: list[bytes] = []
    started_bytes = number = 0
    while piece := read(READ_BYTES):
        first, *others = piece.split(b"\n")
        started.append(first)
        started_bytes += len(first)
        if started_bytes > FRAME_BYTES_MAX:
            raise LineTooLongError(number + 1)
        if not others:
            continue
        yield b"".join(started)
        yield from others[:-1]
        number += len(others)
        started, started_bytes = [others[-1]], len(others[-1])
    last = b"".join(started)
    if last:
        yield last
