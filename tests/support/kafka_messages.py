"""Messages of the Kafka protocol, at random, and two other implementations that read them."""

from __future__ import annotations

import importlib
import io
import random
import re
from functools import cache
from typing import Any

from protocol.kafka.apis import APIS, Api
from protocol.kafka.layout import Field, fields_of
from protocol.kafka.message import Struct

PLACES = [
    (api, version)
    for api in APIS.values()
    for version in range(api.first_version, api.last_version + 1)
]
"""Every API in every version that is served."""


def place_id(place: Any) -> str:
    return place.key.name if isinstance(place, Api) else str(place)


# --- at random ------------------------------------------------------------------------------------


def random_message(
    structure: type[Struct], version: int, choose: random.Random, depth: int = 0
) -> Any:
    """A message with values that both others take: kio reads times and error codes as such."""
    values = {
        field.name: random_value(field, version, choose, depth)
        for field in fields_of(structure)
        if version in field.versions
    }
    return structure(**values)


def random_value(field: Field, version: int, choose: random.Random, depth: int) -> Any:
    is_tagged_struct = field.tag is not None and field.kind == "struct" and not field.is_array
    if field.tag is not None and choose.random() < 0.4:
        return field.default
    if version in field.nullable and not is_tagged_struct and choose.random() < 0.3:
        return None
    if field.is_array:
        count = choose.choice([0, 1, 1, 2, 3] if depth < 2 else [0, 1, 2])
        if field.kind in ("int8", "int32", "string") and depth == 0 and choose.random() < 0.05:
            count = 200  # a count of two bytes
        return [_one(field, version, choose, depth + 1) for _ in range(count)]
    return _one(field, version, choose, depth)


def _one(field: Field, version: int, choose: random.Random, depth: int) -> Any:
    if field.structure is not None:
        return random_message(field.structure, version, choose, depth + 1)
    if field.kind == "string":
        return choose.choice(["", "a", "tide", "größe", "名前", "x" * 130])
    if field.kind in ("bytes", "records"):
        return choose.randbytes(choose.choice([0, 1, 10, 127, 128, 300]))
    if field.kind == "uuid":
        return choose.choice([bytes(16), choose.randbytes(16)])
    if field.kind == "bool":
        return choose.random() < 0.5
    if field.kind == "float64":
        return choose.random()
    return _integer(field, choose)


def _integer(field: Field, choose: random.Random) -> int:
    if "error_code" in field.name:
        return choose.choice([-1, 0, 1, 3, 27, 42, 87, 100])
    if field.name.endswith("_ms") or "timestamp" in field.name:
        return choose.choice([0, 1, 5_000, 2_000_000]) if field.kind == "int32" else choose.choice(
            [0, 1, 1_700_000_000_000]
        )  # fmt: skip
    bits = int(re.sub(r"\D", "", field.kind))
    signed = not field.kind.startswith("u")
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return choose.choice([0, 1, low, high, choose.randint(low, high)])


# --- kafka-python ---------------------------------------------------------------------------------


@cache
def _kafka_python_classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for package in ("producer", "consumer", "metadata", "admin"):
        module = importlib.import_module(f"kafka.protocol.{package}")
        found.update(vars(module))
    return found


def again_by_kafka_python(structure: type[Struct], version: int, body: bytes) -> bytes:
    """What kafka-python writes of a body it has read."""
    message = _kafka_python_classes()[structure.__name__].decode(body, version=version)
    message._header = None  # reading leaves it out, and writing asks for it
    return bytes(message.encode(version=version))


# --- kio ------------------------------------------------------------------------------------------


@cache
def _kio_class(name: str, version: int) -> Any:
    kind = "request" if name.endswith("Request") else "response"
    family = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix(kind.title())).lower()
    module = importlib.import_module(f"kio.schema.{family}.v{version}.{kind}")
    return getattr(module, name)


def again_by_kio(structure: type[Struct], version: int, body: bytes) -> bytes:
    """What kio writes of a body it has read; it must not read what a fuzzer made."""
    from kio.serial import entity_reader, entity_writer

    kind = _kio_class(structure.__name__, version)
    message, _ = entity_reader(kind)(body, 0)
    out = io.BytesIO()
    entity_writer(kind)(out, message)
    return out.getvalue()
