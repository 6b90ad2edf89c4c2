"""`.kafka_cleanshutdown`: left by a broker that flushed everything before it stopped.

Its being there is what counts. Apache Kafka from 3.7 on (KIP-966, CleanShutdownFileHandler) puts
the broker's epoch into it as JSON, `{"version":0,"brokerEpoch":209}`; before, it was empty.
"""

from __future__ import annotations

import json
from typing import Final

from protocol.errors import StoredFormatError
from protocol.identifiers import Buffer
from protocol.limits import INT64_MAX

VERSION: Final = 0
NO_BROKER_EPOCH: Final = -1

SIZE_BYTES_MAX: Final = 1024
"""Bounds what the JSON parser is given; the real thing has about 35 bytes."""


def encode(broker_epoch: int = NO_BROKER_EPOCH) -> bytes:
    """Return the file's bytes; without a broker epoch it is empty, which Kafka reads as none."""
    if broker_epoch == NO_BROKER_EPOCH:
        return b""
    return f'{{"version":{VERSION},"brokerEpoch":{broker_epoch}}}'.encode("ascii")


def decode(data: Buffer) -> int:
    """Return the broker epoch, NO_BROKER_EPOCH if the file is empty.

    Raises:
        StoredFormatError: neither empty nor the JSON above. The shutdown was clean all the same.
    """
    if len(data) == 0:
        return NO_BROKER_EPOCH
    if len(data) > SIZE_BYTES_MAX:
        raise StoredFormatError(f"clean shutdown marker: {len(data)} bytes are too many")
    try:
        content = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:  # ValueError: bad UTF-8 and bad JSON
        raise StoredFormatError(f"clean shutdown marker: {error}") from error
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise StoredFormatError(f"clean shutdown marker: not of version {VERSION}")
    broker_epoch = content.get("brokerEpoch")
    if type(broker_epoch) is not int or not NO_BROKER_EPOCH <= broker_epoch <= INT64_MAX:
        raise StoredFormatError("clean shutdown marker: the broker epoch is no int64")
    return broker_epoch
