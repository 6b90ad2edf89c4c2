"""Decoder: writes the function that reads a message in one version.

It is straight-line Python without calls for most fields: numbers in a row are unpacked by one call,
arrays of structs are loops in place. Every count is held against the bytes that are left before a
loop or an allocation, and all together against a bound of their own, that of tagged fields too;
lengths are held against the end; what is behind the last field is left alone, and tagged fields
that nobody knows are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from protocol.kafka.layout import FIXED_BYTES, FORMATS, Field, fields_of, smallest_bytes
from protocol.kafka.message import Struct
from protocol.kafka.source import Source
from protocol.varint import decode_unsigned_varint

__all__ = ["make_decoder"]


def make_decoder(
    structure: type[Struct], version: int, *, is_flexible: bool, elements_max: int
) -> Callable[..., tuple[Any, int]]:
    """Return `decode(data, position, end, view)` to the message and the position behind it.

    `data` and `view` hold the same bytes; `records` are slices of `view`. What is wrong raises
    IndexError, struct.error or ValueError.

    Args:
        elements_max: Of all arrays and tagged fields together.
    """
    writer = _Decoder(version, is_flexible)
    writer.source.line(f"left = {elements_max}")
    made = writer.structure(structure)
    writer.source.line(f"return {made}, p")
    return writer.source.compiled(
        f"decode_{structure.__name__}_{version}",
        "data, p, end, view",
        {
            "uvarint": decode_unsigned_varint,
            "cut": _cut,
            "null": _null,
            "skip_tags": _skip_tags,
            "numbers": _numbers,
        },
    )


class _Decoder:
    def __init__(self, version: int, is_flexible: bool) -> None:
        self._version, self._is_flexible = version, is_flexible
        self.source = Source()

    def structure(self, structure: type[Struct]) -> str:
        """Write what reads a struct; return the expression that makes it."""
        source, values, tagged = self.source, {}, []
        for field in fields_of(structure):
            if self._version not in field.versions:
                values[field.name] = self._default(field)
            elif field.is_tagged_in(self._version):
                tagged.append(field)
            else:
                values[field.name] = self._field(field)
        self._flush()
        for field in tagged:
            values[field.name] = source.name(field.name)
            source.line(f"{values[field.name]} = {self._default(field)}")
        if self._is_flexible:
            self._tags(tagged, values)
        arguments = ", ".join(values[field.name] for field in fields_of(structure))
        return f"{source.constant(structure.__name__, structure)}({arguments})"

    def _default(self, field: Field) -> str:
        if field.default == []:
            return "[]"
        return self.source.constant("default", field.default)

    def _flush(self) -> None:
        taken = self.source.take_group()
        if taken is not None:
            form, names = taken
            unpack = self.source.constant("unpack", form.unpack_from)
            self.source.line(f"{', '.join(names)}, = {unpack}(data, p)")
            self.source.line(f"p += {form.size}")

    # --- fields -------------------------------------------------------------------------------

    def _field(self, field: Field) -> str:
        """Write what reads a field; return the name of its value."""
        name = self.source.name(field.name)
        can_be_null = self._version in field.nullable
        if field.is_array:
            self._array(field, name, can_be_null)
        elif field.kind == "struct":
            self._struct(field, name, can_be_null and field.tag is None)
        elif field.kind in FORMATS:
            self.source.fixed(FORMATS[field.kind], name)
        else:
            self._bytes(field.kind, name, can_be_null)
        return name

    def _struct(self, field: Field, name: str, can_be_null: bool) -> None:
        source = self.source
        assert field.structure is not None
        if not can_be_null:
            source.line(f"{name} = {self.structure(field.structure)}")
            return
        mark = source.name("mark")
        source.fixed("b", mark)
        self._flush()
        source.line(f"{name} = None")
        with source.block(f"if {mark} >= 0:"):
            source.line(f"{name} = {self.structure(field.structure)}")

    def _length(self, wide: bool) -> str:
        """Write what reads a length, -1 for null."""
        source, name = self.source, self.source.name("n")
        if not self._is_flexible:
            source.fixed("i" if wide else "h", name)
            self._flush()
            return name
        self._flush()
        source.line(f"{name} = data[p]")
        source.line("p += 1")
        with source.block(f"if {name} > 127:"):
            source.line(f"{name}, p = uvarint(data, p - 1)")
        source.line(f"{name} -= 1")
        return name

    def _bytes(self, kind: str, name: str, can_be_null: bool) -> None:
        source = self.source
        length = self._length(wide=kind != "string")
        end = source.name("q")
        made = {
            "string": f"str(data[p:{end}], 'utf-8')",
            "bytes": f"bytes(data[p:{end}])",
            "records": f"view[p:{end}]",
        }[kind]
        with source.block(f"if {length} < 0:"):
            source.line(
                f"{name} = " + (f"None if {length} == -1 else null()" if can_be_null else "null()")
            )
        with source.block("else:"):
            source.line(f"{end} = p + {length}")
            with source.block(f"if {end} > end:"):
                source.line("cut()")
            source.line(f"{name} = {made}")
            source.line(f"p = {end}")

    def _array(self, field: Field, name: str, can_be_null: bool) -> None:
        source = self.source
        length = self._length(wide=True)
        with source.block(f"if {length} < 0:"):
            source.line(
                f"{name} = " + (f"None if {length} == -1 else null()" if can_be_null else "null()")
            )
        with source.block("else:"):
            source.line(f"left -= {length}")
            if field.kind in FORMATS and field.kind != "uuid":
                form, size = FORMATS[field.kind], FIXED_BYTES[field.kind]
                with source.block("if left < 0:"):
                    source.line("cut()")
                source.line(f"{name}, p = numbers(data, p, end, {length}, '{form}', {size})")
                return
            least = self._least_bytes(field)
            with source.block(f"if left < 0 or {length} > (end - p) // {least}:"):
                source.line("cut()")
            source.line(f"{name} = []")
            with source.block(f"for _ in range({length}):"):
                if field.structure is not None:
                    source.line(f"{name}.append({self.structure(field.structure)})")
                else:
                    item = self._field(field._replace(name="item", is_array=False))
                    self._flush()
                    source.line(f"{name}.append({item})")

    def _least_bytes(self, field: Field) -> int:
        if field.structure is not None:
            return smallest_bytes(field.structure, self._version, is_flexible=self._is_flexible)
        return FIXED_BYTES.get(field.kind, 1 if self._is_flexible else 2)

    # --- tagged fields ------------------------------------------------------------------------

    def _tags(self, tagged: list[Field], values: dict[str, str]) -> None:
        source = self.source
        if not tagged:
            with source.block("if data[p]:"):
                source.line("p, left = skip_tags(data, p, end, left)")
            with source.block("else:"):
                source.line("p += 1")
            return
        tags, tag, size, end = map(source.name, ("tags", "tag", "size", "q"))
        source.line(f"{tags}, p = uvarint(data, p)")
        source.line(f"left -= {tags}")
        with source.block(f"if left < 0 or {tags} > (end - p) // 2:"):
            source.line("cut()")
        with source.block(f"for _ in range({tags}):"):
            source.line(f"{tag}, p = uvarint(data, p)")
            source.line(f"{size}, p = uvarint(data, p)")
            source.line(f"{end} = p + {size}")
            with source.block(f"if {end} > end:"):
                source.line("cut()")
            for number, field in enumerate(tagged):
                with source.block(f"{'el' if number else ''}if {tag} == {field.tag}:"):
                    value = self._field(field)
                    self._flush()
                    source.line(f"{values[field.name]} = {value}")
                    with source.block(f"if p > {end}:"):
                        source.line("cut()")
            source.line(f"p = {end}")


# --- what the functions call ------------------------------------------------------------------


def _cut() -> None:
    raise ValueError("it ends inside a field, or a count is not possible")


def _null() -> None:
    raise ValueError("a length is negative, or null where there must be a value")


def _skip_tags(data: Any, position: int, end: int, left: int) -> tuple[int, int]:
    """Return the position behind them, and how many elements there may be yet."""
    tags, position = decode_unsigned_varint(data, position)
    left -= tags
    if left < 0 or tags > (end - position) // 2:
        _cut()
    for _ in range(tags):
        _, position = decode_unsigned_varint(data, position)
        size, position = decode_unsigned_varint(data, position)
        position += size
        if position > end:
            _cut()
    return position, left


def _numbers(
    data: Any, position: int, end: int, count: int, form: str, size: int
) -> tuple[list[int], int]:
    """Read an array of numbers."""
    if count > (end - position) // size:
        _cut()
    numbers = struct.unpack_from(f">{count}{form}", data, position)
    return list(numbers), position + count * size
