"""`meta.properties`: whose data directory this is, and which version its files are of.

A Java properties file, as Apache Kafka 3.x and 4.x write it (MetaProperties, versions 0 and 1),
with one key of ours beside theirs:

    #
    #Sat Nov 21 04:04:46 UTC 2026
    version=1                             version of this file: 0 (ZooKeeper times) or 1
    cluster.id=lUhlvIBKisRuMnGbdXhCtw
    node.id=1                             version 0: broker.id
    directory.id=wGKQ3xXOdvDFJ_2KxVGTAQ   version 1 only
    tidelog.data.format.version=1         absent where only Kafka has written so far

What another program added is kept. Java's text rules (java.util.Properties.load and store):
Latin-1, `\\uXXXX` for the rest; `=`, `:` or blanks end a key; a backslash escapes and joins lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from uuid import UUID

import msgspec

from protocol.errors import DataDirectoryError, StoredFormatError
from protocol.identifiers import Buffer
from protocol.limits import INT32_MAX
from protocol.stored.kafka_uuid import decode_uuid, encode_uuid

KAFKA_VERSION_MAX: Final = 1
DATA_FORMAT_VERSION: Final = 1
"""Grows when our files change so that an older Tidelog would misread them."""

VERSION_KEY: Final = "version"
CLUSTER_ID_KEY: Final = "cluster.id"
NODE_ID_KEY: Final = "node.id"
BROKER_ID_KEY: Final = "broker.id"
DIRECTORY_ID_KEY: Final = "directory.id"
DATA_FORMAT_VERSION_KEY: Final = "tidelog.data.format.version"

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_KEY_END = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)?", re.DOTALL)
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_STORED: Final = str.maketrans(
    {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r", "\f": r"\f"}
    | {character: "\\" + character for character in "=:#!"}
)


class MetaProperties(msgspec.Struct, frozen=True):
    """The keys and values of one `meta.properties`, in the file's order."""

    entries: tuple[tuple[str, str], ...]
    comments: tuple[str, ...] = ()
    """Comment lines with their `#` or `!`; wherever they stood, they are written first."""

    def get(self, key: str) -> str | None:
        """Return the value of `key`, None if it is not there."""
        return next((value for name, value in self.entries if name == key), None)

    def with_entry(self, key: str, value: str) -> MetaProperties:
        """Return a copy in which `key` has `value`, at its old place or at the end."""
        if self.get(key) is None:
            return msgspec.structs.replace(self, entries=(*self.entries, (key, value)))
        entries = tuple((name, value if name == key else old) for name, old in self.entries)
        return msgspec.structs.replace(self, entries=entries)

    def adopted(self) -> MetaProperties:
        """Return a copy that carries our data format version, for a directory Kafka made."""
        return self.with_entry(DATA_FORMAT_VERSION_KEY, str(DATA_FORMAT_VERSION))

    @property
    def version(self) -> int:
        """Version of the file itself, 0 or 1."""
        number = self._number(VERSION_KEY)
        if number is None:
            raise StoredFormatError(f"meta.properties: {VERSION_KEY} is missing")
        return number

    @property
    def cluster_id(self) -> str | None:
        """Id of the cluster, free text."""
        return self.get(CLUSTER_ID_KEY)

    @property
    def node_id(self) -> int | None:
        """Id of the broker; `broker.id` in version 0."""
        number = self._number(NODE_ID_KEY)
        return number if number is not None else self._number(BROKER_ID_KEY)

    @property
    def directory_id(self) -> UUID | None:
        """Id of this one data directory; version 0 has none."""
        text = self.get(DIRECTORY_ID_KEY)
        return None if text is None else decode_uuid(text)

    @property
    def data_format_version(self) -> int | None:
        """Version of our data format; None where only Kafka has written so far."""
        return self._number(DATA_FORMAT_VERSION_KEY)

    def _number(self, key: str) -> int | None:
        text = self.get(key)
        if text is None:
            return None
        if _NUMBER.fullmatch(text) is None or (number := int(text)) > INT32_MAX:
            raise StoredFormatError(f"meta.properties: {key}={text[:40]!r} is not a number")
        return number


def new(*, cluster_id: str, node_id: int, directory_id: UUID) -> MetaProperties:
    """Return what a data directory of ours is born with."""
    return MetaProperties(
        (
            (VERSION_KEY, str(KAFKA_VERSION_MAX)),
            (CLUSTER_ID_KEY, cluster_id),
            (NODE_ID_KEY, str(node_id)),
            (DIRECTORY_ID_KEY, encode_uuid(directory_id)),
            (DATA_FORMAT_VERSION_KEY, str(DATA_FORMAT_VERSION)),
        )
    )


def encode(properties: MetaProperties) -> bytes:
    """Return the file's bytes: comments, then a line for each key."""
    lines = list(properties.comments)
    for key, value in properties.entries:
        leading = "\\" if value.startswith(" ") else ""
        lines.append(f"{_escaped(key).replace(' ', chr(92) + ' ')}={leading}{_escaped(value)}")
    return "".join(line + "\n" for line in lines).encode("latin-1")


def decode(data: Buffer) -> MetaProperties:
    """Return the properties after all keys known here were checked.

    Raises:
        StoredFormatError: a broken escape, no `version`, or a value that is not of its kind.
        DataDirectoryError: a newer Tidelog or Kafka wrote it; the text is a sentence for people.
    """
    comments: list[str] = []
    entries: dict[str, str] = {}
    for line in _logical_lines(bytes(data).decode("latin-1"), comments):
        key_end = _end(_KEY_END, line, 0)
        value_start = _end(_SEPARATOR, line, key_end)
        entries[_unescaped(line[:key_end])] = _unescaped(line[value_start:])
    properties = MetaProperties(tuple(entries.items()), tuple(comments))
    _check(properties)
    return properties


def _check(properties: MetaProperties) -> None:
    data_format_version = properties.data_format_version
    if data_format_version is not None and data_format_version > DATA_FORMAT_VERSION:
        raise DataDirectoryError(
            f"this data directory has Tidelog's data format version {data_format_version}, but "
            f"this Tidelog knows versions up to {DATA_FORMAT_VERSION}: use a newer Tidelog"
        )
    if properties.version > KAFKA_VERSION_MAX:
        raise DataDirectoryError(
            f"meta.properties of this data directory has version {properties.version}, but this "
            f"Tidelog knows versions up to {KAFKA_VERSION_MAX}: use a newer Tidelog"
        )
    _ = properties.node_id, properties.directory_id  # raises where they are no number, no UUID


def _logical_lines(text: str, comments: list[str]) -> Iterator[str]:
    """Yield lines joined where a backslash ends them; comment lines go to `comments`."""
    joined: str | None = None
    for line in re.split(r"\r\n|\r|\n", text):
        stripped = line.lstrip(" \t\f")
        if joined is None:
            if stripped[:1] in {"#", "!"}:
                comments.append(stripped)
                continue
            if not stripped:
                continue
        logical = (joined or "") + stripped
        backslashes = len(logical) - len(logical.rstrip("\\"))
        if backslashes % 2:
            joined = logical[:-1]
            continue
        joined = None
        yield logical
    if joined:
        yield joined


def _end(pattern: re.Pattern[str], line: str, start: int) -> int:
    match = pattern.match(line, start)
    assert match is not None, "both patterns match the empty string"
    return match.end()


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_unescape, text)


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1] or ""
    if escaped == "u":
        raise StoredFormatError("meta.properties: \\u without four hexadecimal digits")
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _LETTERS.get(escaped, escaped)


def _escaped(text: str) -> str:
    pieces = []
    for character in text.translate(_STORED):
        if " " <= character <= "~":
            pieces.append(character)
            continue
        units = character.encode("utf-16-be", "surrogatepass")  # Java's chars are UTF-16 units
        pieces += [f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2)]
    return "".join(pieces)
