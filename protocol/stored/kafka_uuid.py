"""Kafka's text form of a UUID: its 16 bytes in base64url without padding, 22 characters.

Source: org.apache.kafka.common.Uuid. Topic ids and directory ids are written so.
"""

from __future__ import annotations

import base64
import re
from typing import Final
from uuid import UUID

from protocol.errors import StoredFormatError

ZERO_UUID: Final = UUID(int=0)
"""Kafka's "no id"; no topic and no directory has it."""

_TEXT = re.compile(r"[A-Za-z0-9_-]{21}[AQgw]", re.ASCII)  # the last character holds two bits only


def encode_uuid(value: UUID) -> str:
    """Return the 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def decode_uuid(text: str) -> UUID:
    """Return the UUID that `text` is.

    Raises:
        StoredFormatError: it is not 22 characters of base64url, or has stray bits at its end.
    """
    if _TEXT.fullmatch(text) is None:
        raise StoredFormatError(f"{text[:40]!r} is not a base64url UUID of 22 characters")
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
