"""`leader-epoch-checkpoint`: where each leader epoch of a partition begins, as text.

As Apache Kafka 3.x and 4.x write it (LeaderEpochCheckpointFile), in the form of `checkpoint.py`:

    0              version
    2              count
    0 0            epoch, start offset: the offset of the epoch's first record
    2 126
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from protocol.errors import StoredFormatError
from protocol.identifiers import Buffer
from protocol.limits import INT32_MAX, INT64_MAX
from protocol.stored.checkpoint import checkpoint_decode, checkpoint_encode, parse_number


class LeaderEpoch(NamedTuple):
    """An epoch and the offset of its first record."""

    epoch: int
    start_offset: int


def encode(epochs: Iterable[LeaderEpoch]) -> bytes:
    """Return the file's bytes; epochs and their start offsets grow strictly."""
    return checkpoint_encode(f"{epoch} {start_offset}" for epoch, start_offset in epochs)


def decode(data: Buffer) -> list[LeaderEpoch]:
    """Return the epochs, oldest first.

    Raises:
        StoredFormatError: another form, a number out of range, or entries that do not grow.
    """
    epochs: list[LeaderEpoch] = []
    for epoch_text, offset_text in checkpoint_decode(data, fields_per_line=2):
        entry = LeaderEpoch(
            parse_number(epoch_text, INT32_MAX), parse_number(offset_text, INT64_MAX)
        )
        if epochs and not (
            entry.epoch > epochs[-1].epoch and entry.start_offset > epochs[-1].start_offset
        ):
            raise StoredFormatError(f"leader-epoch-checkpoint: {entry} is not after {epochs[-1]}")
        epochs.append(entry)
    return epochs
