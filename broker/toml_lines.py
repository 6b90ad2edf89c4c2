"""TOML lines: on which line of a TOML text each table and key stands.

tomllib gives values without places. This scanner reads only what it must: table headers, the key
before each `=`, and where a value of several lines ends. It runs after tomllib has accepted the
text, so it may trust it; what it cannot place is simply left out.
"""

from __future__ import annotations

import re
from typing import Final

_PART: Final = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED: Final = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER: Final = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]\]?")
_KEY: Final = re.compile(rf"\s*({_DOTTED})\s*=")
_ONE_PART: Final = re.compile(_PART)
_TOKEN: Final = re.compile(
    r'"""|\'\'\'|"(?:[^"\\]|\\.)*"|\'[^\']*\'|[\[\]{}]|#.*',
)


def lines_of(text: str) -> dict[str, int]:
    """Return the line, from 1, of each table and key, by dotted path."""
    found: dict[str, int] = {}
    prefix = ""
    depth, quote = 0, ""  # open brackets, and the triple quote of an open string
    for number, line in enumerate(text.split("\n"), start=1):
        if depth == 0 and not quote:
            header = _HEADER.match(line)
            if header is not None:
                prefix = _path(header[1])
                found.setdefault(prefix, number)
                continue
            key = _KEY.match(line)
            if key is None:
                continue
            found.setdefault(f"{prefix}.{_path(key[1])}".lstrip("."), number)
            line = line[key.end() :]
        depth, quote = _state_after(line, depth, quote)
    return found


def _path(dotted: str) -> str:
    parts = (part.group() for part in _ONE_PART.finditer(dotted))
    return ".".join(part[1:-1] if part[0] in "\"'" else part for part in parts)


def _state_after(line: str, depth: int, quote: str) -> tuple[int, str]:
    """Return the bracket depth and the open triple quote after `line`."""
    position = 0
    while True:
        if quote:
            end = line.find(quote, position)
            if end < 0:
                return depth, quote
            position, quote = end + 3, ""
        token = _TOKEN.search(line, position)
        if token is None:
            return depth, quote
        position = token.end()
        if token.group() in ('"""', "'''"):
            quote = token.group()
        elif token.group() in "[{":
            depth += 1
        elif token.group() in "]}":
            depth -= 1
