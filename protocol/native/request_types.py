"""RequestType and the other small number spaces of the native protocol's requests.

`docs/native-protocol.md` is the specification. The numbers 0 to 4 are those of the original Kafka
broker (0.7); the protocol grows by new types, never by new fields.
"""

from __future__ import annotations

import enum
from typing import Final


class RequestType(enum.IntEnum):
    """The int16 at the start of a request's frame."""

    PRODUCE = 0
    FETCH = 1
    MULTIFETCH = 2
    MULTIPRODUCE = 3
    OFFSETS = 4
    TOPICS = 5
    CREATE_TOPIC = 6
    DELETE_TOPIC = 7
    APPEND_AT = 8
    ALTER_TOPIC = 9
    DELETE_RECORDS = 10
    TRANSACTIONS = 11


class MessageFormat(enum.IntEnum):
    """What a set in a PRODUCE or in a fetch answer is made of, int8."""

    SIMPLE_0 = 0
    """Entries `offset:8 size:4 magic:1 crc:4 payload` (engine rule R1)."""
    SIMPLE_1 = 1
    """Entries `offset:8 size:4 magic:1 attributes:1 crc:4 payload` (engine rule R1)."""
    RECORD_BATCH = 2
    """Record batches as they are stored."""


ACKS_ALL: Final = -1
"""Answer when the high watermark has passed the messages."""
ACKS_NONE: Final = 0
"""Never answer; an error closes the connection."""
ACKS_WRITTEN: Final = 1
"""Answer after the write, perhaps before the messages are readable."""

LATEST_TIME: Final = -1
"""OFFSETS: the high watermark."""
EARLIEST_TIME: Final = -2
"""OFFSETS: the log start offset."""
