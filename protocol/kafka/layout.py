"""Layout: a message's fields as its class declares them, read once."""

from __future__ import annotations

import sys
import types
from functools import cache
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from protocol.kafka.message import Kind, Struct, VersionRange, Wire

__all__ = ["Field", "fields_of", "smallest_bytes"]

NO_VERSION = VersionRange(0, -1)

FIXED_BYTES = {
    "bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "float64": 8,
    "uuid": 16,
}  # fmt: skip
FORMATS = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H",
    "float64": "d", "uuid": "16s",
}  # fmt: skip
"""For `struct`, big-endian."""


class Field(NamedTuple):
    """A field of a message, or the elements of one that is an array."""

    name: str
    kind: str
    """Of the value, or of each element: a key of `FORMATS`, string, bytes, records or struct."""
    is_array: bool
    structure: type[Struct] | None
    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    tagged: VersionRange
    default: Any

    def is_tagged_in(self, version: int) -> bool:
        """Whether it is written behind the others, with its tag."""
        return self.tag is not None and version in self.tagged


@cache
def fields_of(structure: type[Struct]) -> tuple[Field, ...]:
    """Return the fields in the order in which they are written."""
    namespace = vars(sys.modules[structure.__module__])
    hints = get_type_hints(structure, namespace, include_extras=True)
    defaults = _defaults(structure)
    return tuple(_field(name, hints[name], defaults[name]) for name in structure.__struct_fields__)


def smallest_bytes(structure: type[Struct], version: int, *, is_flexible: bool) -> int:
    """Return the least number of bytes that a struct can take: it bounds how many may come."""
    total = 1 if is_flexible else 0
    for field in fields_of(structure):
        if version not in field.versions or field.is_tagged_in(version):
            continue
        if field.is_array or field.kind in ("string", "bytes", "records"):
            is_short = field.kind == "string" and not field.is_array
            total += 1 if is_flexible else 2 if is_short else 4
        elif field.structure is not None:
            nullable = version in field.nullable
            total += 1 if nullable else smallest_bytes(
                field.structure, version, is_flexible=is_flexible
            )  # fmt: skip
        else:
            total += FIXED_BYTES[field.kind]
    return max(total, 1)


def _defaults(structure: type[Struct]) -> dict[str, Any]:
    """Return each field's default; a fresh message has them all."""
    fresh = structure()
    return {name: getattr(fresh, name) for name in structure.__struct_fields__}


def _field(name: str, hint: Any, default: Any) -> Field:
    kind, wire = "", Wire()
    base, extras = _split(hint)
    may_be_null = False
    if get_origin(base) in (Union, types.UnionType):
        members = [each for each in get_args(base) if each is not type(None)]
        may_be_null = len(members) < len(get_args(base))
        if not any(isinstance(each, Kind) for each in extras) and len(members) == 1:
            base, inner = _split(members[0])
            extras = (*inner, *extras)
    is_array = get_origin(base) is list
    if is_array:
        base, inner = _split(get_args(base)[0])
        extras = (*inner, *extras)
    for extra in extras:
        if isinstance(extra, Kind):
            kind = extra.name
        elif isinstance(extra, Wire):
            wire = extra
    structure = base if isinstance(base, type) and issubclass(base, Struct) else None
    kind = kind or ("struct" if structure else {str: "string", bool: "bool", bytes: "bytes"}[base])
    versions = VersionRange.parse(wire.versions)
    if wire.nullable is not None:
        nullable = VersionRange.parse(wire.nullable)
    else:
        nullable = versions if may_be_null else NO_VERSION
    tagged = VersionRange.parse(wire.versions if wire.tagged is None else wire.tagged)
    return Field(name, kind, is_array, structure, versions, nullable, wire.tag, tagged, default)


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without what annotates it, and that."""
    if get_origin(hint) is Annotated:
        base, *extras = get_args(hint)
        return base, tuple(extras)
    return hint, ()
