"""Config keys: the config structs as a flat table of keys, and values read for one key.

A key is named by its path, `table.key`. A raw value comes from TOML (typed) or as text (from the
environment or the command line); both end as the field's own type, or as a ValueError that says
what is wanted instead.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from broker import quantities
from broker.config import Config
from broker.config_units import Unit
from protocol.limits import INT64_MAX

TRUE_WORDS: Final = frozenset({"true", "yes", "on", "1"})
FALSE_WORDS: Final = frozenset({"false", "no", "off", "0"})


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key: where it stands, what it may be, what it is by default."""

    table: str
    name: str
    type: type
    """bool, int, float, str, tuple (of strings), or a StrEnum."""
    unit: Unit
    at_least: float | None
    at_most: float | None
    choices: tuple[str, ...]
    default: Any

    @property
    def path(self) -> str:
        return f"{self.table}.{self.name}"

    @property
    def environment_name(self) -> str:
        return f"TIDELOG__{self.table.upper()}__{self.name.upper()}"


@functools.cache
def all_keys() -> Mapping[str, Key]:
    """Return every key by its path, in the order of the file."""
    found = {}
    for table in msgspec.structs.fields(Config):
        for field in msgspec.structs.fields(table.type):
            key = _key(table.name, field)
            found[key.path] = key
    return MappingProxyType(found)


def tables() -> tuple[str, ...]:
    """Return the names of the tables, in order."""
    return Config.__struct_fields__


def _key(table: str, field: msgspec.structs.FieldInfo) -> Key:
    metas = getattr(field.type, "__metadata__", ())
    meta = metas[0] if metas else msgspec.Meta()
    bare = getattr(field.type, "__origin__", field.type)
    extra = meta.extra or {}
    choices = tuple(bare) if issubclass(bare, enum.Enum) else extra.get("choices", ())
    return Key(
        table=table,
        name=field.name,
        type=bare,
        unit=extra.get("unit", Unit.NONE),
        at_least=meta.ge,
        at_most=meta.le,
        choices=tuple(str(choice) for choice in choices),
        default=field.default,
    )


def value_of_toml(key: Key, raw: object) -> Any:
    """Return `raw`, as tomllib gave it, as a value of `key`.

    Raises:
        ValueError: a wrong type or an impossible value; the text says what to write.
    """
    number = isinstance(raw, int) and not isinstance(raw, bool)
    if key.type is bool and isinstance(raw, bool):
        return raw
    if key.type is int and number:
        return _in_bounds(key, raw)
    if key.type is int and isinstance(raw, str) and key.unit:
        return _in_bounds(key, _quantity(key, raw))
    if key.type is float and (number or isinstance(raw, float)):
        return _in_bounds(key, float(raw))  # type: ignore[arg-type]
    if key.type is tuple and isinstance(raw, list) and all(isinstance(one, str) for one in raw):
        return tuple(raw)
    if issubclass(key.type, str) and isinstance(raw, str):
        return _chosen(key, raw)
    raise ValueError(f"{wanted(key)}; for example: {key.name} = {toml_text(key, key.default)}")


def value_of_text(key: Key, text: str) -> Any:
    """Return `text`, from the environment or a command line, as a value of `key`.

    Lists are separated by commas, or written as TOML lists.

    Raises:
        ValueError: a wrong type or an impossible value; the text says what to write.
    """
    text = text.strip()
    if key.type is bool:
        word = text.lower()
        if word in TRUE_WORDS or word in FALSE_WORDS:
            return word in TRUE_WORDS
        raise ValueError(f"{wanted(key)}; for example: {key.path}=true")
    if key.type is tuple:
        return value_of_toml(key, _list_of_text(text))
    if issubclass(key.type, str):
        return _chosen(key, text)
    try:
        if key.type is float:
            return _in_bounds(key, float(text))
        return _in_bounds(key, _quantity(key, text) if key.unit else int(text))
    except ValueError as error:
        if "must be" in str(error) or key.unit:
            raise
        raise ValueError(f"{wanted(key)}; for example: {key.path}={key.default}") from None


def wanted(key: Key) -> str:
    """Return "must be ...": the values of `key` in words."""
    if key.choices:
        return "must be one of " + ", ".join(f'"{choice}"' for choice in key.choices)
    nouns = {bool: "true or false", tuple: "a list of strings", str: "a string"}
    if key.type in nouns:
        return f"must be {nouns[key.type]}"
    noun = {Unit.BYTES: "a size", Unit.MS: "a duration"}.get(key.unit, "a number")
    return f"must be {noun}{_bounds_text(key)}"


def toml_text(key: Key, value: Any) -> str:
    """Return `value` as it is written in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(_quoted(one) for one in value)}]"
    if isinstance(value, str):
        return _quoted(str(value))
    pretty = human_text(key, value)
    return pretty if pretty == str(value) else _quoted(pretty)


def human_text(key: Key, value: Any) -> str:
    """Return a number with its unit where that is shorter to read, anything else as text."""
    if value == INT64_MAX:
        return str(value)
    if key.unit is Unit.BYTES:
        return quantities.format_size(value)
    if key.unit is Unit.MS:
        return quantities.format_duration(value)
    return str(value)


def _quantity(key: Key, text: str) -> int:
    return (
        quantities.parse_size(text) if key.unit is Unit.BYTES else quantities.parse_duration(text)
    )


def _in_bounds(key: Key, value: Any) -> Any:
    low = key.at_least is not None and value < key.at_least
    high = key.at_most is not None and value > key.at_most
    if low or high or value != value:  # the last: not a number
        raise ValueError(wanted(key))
    return value


def _chosen(key: Key, text: str) -> Any:
    if key.choices and text not in key.choices:
        raise ValueError(wanted(key))
    return key.type(text)


def _list_of_text(text: str) -> object:
    if not text.startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    import tomllib  # here, because most starts do without

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return None


def _bounds_text(key: Key) -> str:
    low, high = key.at_least, key.at_most
    if low is None or high is None:
        return ""
    if high == INT64_MAX:
        return f" of at least {human_text(key, low)}"
    return f" from {human_text(key, low)} to {human_text(key, high)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
