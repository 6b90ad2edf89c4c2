"""Parts of an answer that are encoded before it, with their records: see `codec.encode_part`."""

from __future__ import annotations

from functools import cache
from typing import Any

from protocol.identifiers import Buffer
from protocol.kafka.apis import Api
from protocol.kafka.encoder import make_encoder
from protocol.kafka.message import Struct


def encode_in_place(api: Api, version: int, parts: list[Any], start: int) -> None:
    """Encode the parts from number `start` on, which stand in a list of an answer.

    In the place of the first are all of them then, in pieces, records among them as they are; in
    the places of the others is nothing. So the list stays as long as its length on the wire.
    """
    if start == len(parts):
        return
    structure: type[Struct] = type(parts[start])
    encode = _encoder(structure, version, api.is_flexible(version))
    out: list[Buffer] = []
    pieces: list[Buffer] = []
    for number in range(start, len(parts)):
        encode(parts[number], out, pieces)
        parts[number] = b""
    pieces.append(b"".join(out))
    parts[start] = pieces


_encoder = cache(
    lambda structure, version, is_flexible: make_encoder(
        structure, version, is_flexible=is_flexible
    )
)
