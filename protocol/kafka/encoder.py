"""Encoder: writes the function that writes a message in one version.

Numbers in a row are packed by one call. Records are not copied: they end the piece before them and
stand in the answer as they are, so that one gathering write sends all.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from protocol.identifiers import Buffer
from protocol.kafka.layout import FORMATS, Field, fields_of
from protocol.kafka.message import Struct
from protocol.kafka.source import Source
from protocol.varint import encode_unsigned_varint

__all__ = ["make_encoder"]

SMALL: Final = tuple(bytes([number]) for number in range(128))
"""Unsigned varints of one byte."""


def make_encoder(
    structure: type[Struct], version: int, *, is_flexible: bool
) -> Callable[[Any, list[Buffer], list[Buffer]], None]:
    """Return `encode(message, out, parts)`.

    It appends pieces to `out`; before records it joins them to one of `parts`, and puts the records
    behind it. What is left in `out` at the end is the last piece.
    """
    writer = _Encoder(version, is_flexible)
    writer.source.line("add = out.append")
    writer.structure(structure, "message")
    writer.flush()
    return writer.source.compiled(
        f"encode_{structure.__name__}_{version}",
        "message, out, parts",
        {
            "SMALL": SMALL,
            "uvarint": encode_unsigned_varint,
            "add_records": _add_records,
            "size_of": _size_of,
            "pack_numbers": _pack_numbers,
            "add_tags": _add_tags,
        },
    )


class _Encoder:
    def __init__(self, version: int, is_flexible: bool) -> None:
        self._version, self._is_flexible = version, is_flexible
        self.source = Source()

    def structure(self, structure: type[Struct], name: str) -> None:
        """Write what writes the struct of that name."""
        tagged = []
        for field in fields_of(structure):
            if self._version not in field.versions:
                continue
            if field.is_tagged_in(self._version):
                tagged.append(field)
            else:
                self._field(field, f"{name}.{field.name}")
        if tagged:
            self._tags(tagged, name)
        elif self._is_flexible:
            self.source.fixed("x")  # no tagged fields

    def flush(self) -> None:
        """Write the numbers that were gathered."""
        taken = self.source.take_group()
        if taken is not None:
            form, values = taken
            pack = self.source.constant("pack", form.pack)
            self.source.line(f"add({pack}({', '.join(values)}))")

    def _field(self, field: Field, value: str) -> None:
        can_be_null = self._version in field.nullable
        if field.is_array:
            self._array(field, value, can_be_null)
        elif field.kind == "struct":
            self._struct(field, value, can_be_null and field.tag is None)
        elif field.kind in FORMATS:
            self.source.fixed(FORMATS[field.kind], value)
        elif field.kind == "records":
            self._records(value)
        else:
            self._bytes(field.kind, value)

    def _struct(self, field: Field, value: str, can_be_null: bool) -> None:
        assert field.structure is not None
        source, name = self.source, self.source.name(field.name)
        source.line(f"{name} = {value}")
        if not can_be_null:
            self.structure(field.structure, name)
            return
        self.flush()
        with source.block(f"if {name} is None:"):
            source.line("add(b'\\xff')")
        with source.block("else:"):
            source.line("add(b'\\x01')")
            self.structure(field.structure, name)
            self.flush()

    def _length(self, length: str, wide: bool) -> None:
        """Write a length, an expression that is -1 for null."""
        if not self._is_flexible:
            self.source.fixed("i" if wide else "h", length)
            self.flush()
            return
        self.flush()
        self.source.line(f"n = {length} + 1")
        self.source.line("add(SMALL[n] if n < 128 else uvarint(n))")

    def _bytes(self, kind: str, value: str) -> None:
        source, name, length = self.source, self.source.name("bytes"), self.source.name("n")
        source.line(f"{name} = {value}")
        with source.block(f"if {name} is None:"):
            source.line(f"{name}, {length} = b'', -1")
        with source.block("else:"):
            if kind == "string":
                source.line(f"{name} = {name}.encode()")
            source.line(f"{length} = len({name})")
        self._length(length, wide=kind != "string")
        source.line(f"add({name})")

    def _records(self, value: str) -> None:
        source, name = self.source, self.source.name("records")
        source.line(f"{name} = {value}")
        self._length(f"(-1 if {name} is None else size_of({name}))", wide=True)
        with source.block(f"if {name}:"):
            source.line(f"add_records({name}, out, parts)")

    def _array(self, field: Field, value: str, can_be_null: bool) -> None:
        source, name = self.source, self.source.name(field.name)
        source.line(f"{name} = {value}")
        self._length(f"(-1 if {name} is None else len({name}))", wide=True)
        if field.kind in FORMATS and field.kind != "uuid":
            form = FORMATS[field.kind]
            with source.block(f"if {name}:"):
                one = source.constant("pack", struct.Struct(f">{form}").pack)
                source.line(f"add({one}(*{name}) if len({name}) == 1 else")  # replicas: mostly one
                source.line(f"    pack_numbers('{form}', {name}))")
            return
        items = f"{name} or ()" if can_be_null else name
        with source.block(f"for item_{name} in {items}:"):
            if field.structure is not None:
                one = source.constant("structure", field.structure)
                with source.block(f"if type(item_{name}) is not {one}:"):
                    # It is encoded: see `encode_part`, and `encode_in_place`.
                    with source.block(f"if type(item_{name}) is bytes:"):
                        source.line(f"add(item_{name})")
                    with source.block("else:"):
                        source.line(f"add_records(item_{name}, out, parts)")
                    source.line("continue")
                self.structure(field.structure, f"item_{name}")
            else:
                self._field(field._replace(is_array=False), f"item_{name}")
            self.flush()

    def _tags(self, tagged: list[Field], name: str) -> None:
        source, tags = self.source, self.source.name("tags")
        self.flush()
        source.line(f"{tags} = []")
        for field in sorted(tagged, key=lambda each: each.tag or 0):
            value, default = f"{name}.{field.name}", source.constant("default", field.default)
            is_set = f"{value} is not None" if field.default is None else f"{value} != {default}"
            with source.block(f"if {is_set}:"):
                outer = source.name("out")
                source.line(f"{outer}, out = out, []")
                source.line("add = out.append")
                self._field(field, value)
                self.flush()
                source.line(f"{tags}.append(({field.tag}, b''.join(out)))")
                source.line(f"out = {outer}")
                source.line("add = out.append")
        with source.block(f"if {tags}:"):
            source.line(f"add_tags({tags}, add)")
        with source.block("else:"):
            source.line("add(b'\\0')")


# --- what the functions call ------------------------------------------------------------------


def _size_of(records: Buffer | Sequence[Buffer]) -> int:
    if isinstance(records, list | tuple):
        return sum(map(len, records))
    return len(records)


def _add_records(records: Buffer | list[Buffer], out: list[Buffer], parts: list[Buffer]) -> None:
    parts.append(b"".join(out))
    out.clear()
    if isinstance(records, list | tuple):
        parts.extend(records)
    else:
        parts.append(records)


def _pack_numbers(form: str, numbers: Sequence[int]) -> bytes:
    return struct.pack(f">{len(numbers)}{form}", *numbers)


def _add_tags(tags: list[tuple[int, bytes]], add: Callable[[bytes], None]) -> None:
    add(encode_unsigned_varint(len(tags)))
    for tag, data in tags:
        add(encode_unsigned_varint(tag))
        add(encode_unsigned_varint(len(data)))
        add(data)
