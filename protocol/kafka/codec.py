"""Codec: frames of the Kafka protocol to messages, and messages to frames.

    request   size:i32  api_key:i16 version:i16 correlation_id:i32 client_id:nullable_string
              [tagged fields, from header version 2 on]  body
    response  size:i32  correlation_id:i32  [tagged fields, from header version 1 on]  body

The header of a flexible version has tagged fields, but its client id stays a classic string, and
the answer to ApiVersions has header version 0 in all: its reader cannot know better yet (KIP-511).

The functions for an API and version are written at their first use, in about half a millisecond.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec

from protocol.errors import FrameError, TidelogError
from protocol.identifiers import Buffer
from protocol.kafka.apis import APIS, Api, ApiKey
from protocol.kafka.decoder import make_decoder
from protocol.kafka.encoder import make_encoder
from protocol.kafka.message import Struct
from protocol.limits import MESSAGE_ELEMENTS_MAX, OWN_ELEMENTS_MAX
from protocol.varint import decode_unsigned_varint

__all__ = [
    "RequestHeader",
    "decode_header",
    "decode_request",
    "decode_response",
    "encode_part",
    "encode_request",
    "encode_response",
]

HEADER: Final = struct.Struct(">hhih")  # api key, version, correlation id, size of the client id
HEADER_BYTES: Final = HEADER.size
RESPONSE_HEADER: Final = struct.Struct(">ii")  # size, correlation id
SMALL_FRAME_BYTES: Final = 16 * 1024
"""Up to here a copy is cheaper than looking at bytes through a view."""
HEADER_TAGS_MAX: Final = 16

_header_of = HEADER.unpack_from


class RequestHeader(msgspec.Struct, gc=False):
    """What stands before the body of a request, and where the body begins."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def decode_header(frame: memoryview) -> RequestHeader:
    """Read the header of a request; `frame` begins behind its size.

    The tagged fields of an unknown API, or of a version beyond ours, are not looked for: all that
    can be answered is an error.

    Raises:
        FrameError: it is cut or cannot be.
    """
    try:
        key, version, correlation_id, size = _header_of(frame)
        position, client_id = HEADER_BYTES, None
        if size >= 0:
            position += size
            client_id = str(frame[HEADER_BYTES:position], "utf-8", "replace")
        if size < -1 or position > len(frame):
            raise FrameError("a request's client id does not fit in")
        api = APIS.get(key)
        if (
            api is not None
            and api.flexible_from <= version <= api.last_version
            and version >= api.first_version
        ):
            if frame[position]:
                position = _skip_header_tags(frame, position)
            else:  # nearly always
                position += 1
    except (struct.error, IndexError, TidelogError) as error:
        raise FrameError(f"a request's header is cut: {error}") from error
    return RequestHeader(key, version, correlation_id, client_id, position)


def decode_request(api: Api, version: int, frame: memoryview, position: int) -> Any:
    """Read the body of a request in a version that is served; trailing bytes are ignored.

    Records in it are slices of `frame`.

    Raises:
        FrameError: it is cut, or cannot be.
    """
    decoder = _request_decoders.get((api.request, version))
    if decoder is None:
        decoder = make_decoder(
            api.request,
            version,
            is_flexible=api.is_flexible(version),
            elements_max=MESSAGE_ELEMENTS_MAX,
        )
        _request_decoders[api.request, version] = decoder
    return _decode(decoder, frame, position)


def encode_response(api: Api, version: int, correlation_id: int, response: Struct) -> list[Buffer]:
    """Return the frame, its size in front, in pieces: records are among them as they are."""
    is_flexible = api.is_flexible(version)
    out: list[Buffer] = [b""]
    parts: list[Buffer] = []
    if is_flexible and api.key != ApiKey.API_VERSIONS:
        out.append(b"\0")
    _encoder(api.response, version, is_flexible)(response, out, parts)
    parts.append(b"".join(out))
    size = sum(map(len, parts)) + 4
    parts[0] = RESPONSE_HEADER.pack(size, correlation_id) + parts[0]
    return parts


def encode_part(api: Api, version: int, part: Struct) -> bytes:
    """Return a part of an answer, without records, as bytes: it may stand in a list of such parts.

    So a long answer can be encoded piece by piece, with other work in between.
    """
    out: list[Buffer] = []
    _encoder(type(part), version, api.is_flexible(version))(part, out, [])
    return b"".join(out)


def encode_request(
    api: Api, version: int, correlation_id: int, client_id: str | None, request: Struct
) -> bytes:
    """Return a request as a client sends it, its size in front."""
    is_flexible = api.is_flexible(version)
    name = None if client_id is None else client_id.encode()
    header = HEADER.pack(api.key, version, correlation_id, -1 if name is None else len(name))
    out: list[Buffer] = [header, name or b"", b"\0" if is_flexible else b""]
    parts: list[Buffer] = []
    _encoder(api.request, version, is_flexible)(request, out, parts)
    body = b"".join([*parts, *out])
    return struct.pack(">i", len(body)) + body


def decode_response(api: Api, version: int, frame: memoryview) -> tuple[int, Any]:
    """Return correlation id and message of an answer; `frame` begins behind its size.

    Raises:
        FrameError: it is cut, or cannot be.
    """
    is_flexible = api.is_flexible(version)
    try:
        (correlation_id,) = struct.unpack_from(">i", frame)
        position = 4
        if is_flexible and api.key != ApiKey.API_VERSIONS:
            position = _skip_header_tags(frame, position)
    except (struct.error, TidelogError) as error:
        raise FrameError(f"an answer's header is cut: {error}") from error
    return correlation_id, _decode(_decoder(api.response, version, is_flexible), frame, position)


_request_decoders: dict[tuple[type[Struct], int], Callable[..., tuple[Any, int]]] = {}
_decoder = cache(
    lambda structure, version, is_flexible: make_decoder(
        structure, version, is_flexible=is_flexible, elements_max=OWN_ELEMENTS_MAX
    )
)
_encoder = cache(
    lambda structure, version, is_flexible: make_encoder(
        structure, version, is_flexible=is_flexible
    )
)


def _decode(decoder: Any, frame: memoryview, position: int) -> Any:
    size = len(frame)
    data = bytes(frame) if size <= SMALL_FRAME_BYTES else frame
    try:
        message, _ = decoder(data, position, size, frame)
    except (IndexError, struct.error, ValueError, TidelogError) as error:
        raise FrameError(f"a message of {size} bytes is not what it says: {error}") from error
    return message


def _skip_header_tags(frame: memoryview, position: int) -> int:
    tags, position = decode_unsigned_varint(frame, position)
    if tags > HEADER_TAGS_MAX:
        raise FrameError(f"{tags} tagged fields in a header")
    for _ in range(tags):
        _, position = decode_unsigned_varint(frame, position)
        size, position = decode_unsigned_varint(frame, position)
        position += size
    return position
