"""How a message of the Kafka protocol is declared: one class for all its versions.

    class PartitionProduceData(Struct):
        index: Int32 = 0
        records: Records | None = None

    class ProduceRequest(Struct):
        transactional_id: Annotated[str | None, Wire("3+")] = None
        acks: Int16 = 0
        timeout_ms: Int32 = 0
        topics: list[TopicProduceData] = []

The order of the fields is their order on the wire. A field that a version does not have keeps its
default when that version is read, and is left out when it is written. `| None` makes a field
nullable, in all versions unless `Wire` says in which. Tagged fields are those of KIP-482: written
only if they differ from their default, skipped by who does not know them.

Which fields there are is a matter of the protocol itself; its source are the message definitions of
Apache Kafka 4.3, and the tests hold every message against two other implementations of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec

from protocol.identifiers import Buffer

__all__ = [
    "NO_UUID",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Kind",
    "Records",
    "Struct",
    "UInt16",
    "Uuid",
    "VersionRange",
    "Wire",
]

NEWEST: Final = 32767
"""The end of an open range; versions are int16."""


class Struct(msgspec.Struct, gc=False):
    """A message, or a part of one. They form no cycles, so the collector need not visit them."""


class VersionRange(NamedTuple):
    """From `first` to `last`, both included; empty if `last` is below `first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read `3+`, `0-12`, `7` or, for no version, the empty text."""
        if not text:
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), NEWEST)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


class Kind(NamedTuple):
    """How a value is written; its name is the one in Kafka's message definitions."""

    name: str


class Wire(NamedTuple):
    """Where and how a field is written, if not in all versions and in its place."""

    versions: str = "0+"
    nullable: str | None = None
    """Versions in which it may be null; None: wherever its type says so."""
    tag: int | None = None
    """It is a tagged field with this number, in the versions of `tagged`."""
    tagged: str | None = None
    """None: in all versions that have it."""


Int8: TypeAlias = Annotated[int, Kind("int8")]
Int16: TypeAlias = Annotated[int, Kind("int16")]
Int32: TypeAlias = Annotated[int, Kind("int32")]
Int64: TypeAlias = Annotated[int, Kind("int64")]
UInt16: TypeAlias = Annotated[int, Kind("uint16")]
Float64: TypeAlias = Annotated[float, Kind("float64")]
Uuid: TypeAlias = Annotated[bytes, Kind("uuid")]
"""16 bytes, big-endian."""
Records: TypeAlias = Annotated[Buffer | Sequence[Buffer], Kind("records")]
"""Record batches as bytes, never copied: a view of the frame when read; when written one buffer, or
several that follow each other."""

NO_UUID: Final = bytes(16)
