"""Transaction index (`.txnindex`): the aborted transactions that end in a segment.

As Apache Kafka 3.x and 4.x write it (TransactionIndex, AbortedTxn version 0), big-endian; entry n
at byte 34n, in the order of their last offsets:

    0            2                10                18               26                     34
    +------------+----------------+-----------------+----------------+----------------------+
    | version i16| producer_id i64|first_offset i64 |last_offset i64 |last_stable_offset i64|
    +------------+----------------+-----------------+----------------+----------------------+

last_offset is the abort marker's; last_stable_offset is what the partition's became with it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from protocol.errors import StoredFormatError
from protocol.identifiers import Buffer

VERSION: Final = 0

ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_BYTES: Final = 34
assert ENTRY.size == ENTRY_BYTES, "the picture above and the struct disagree"


class AbortedTransaction(NamedTuple):
    """One aborted transaction; its records are in first_offset..last_offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode(transactions: Iterable[AbortedTransaction]) -> bytes:
    """Return the entries' bytes: a whole file, or what is appended to one."""
    return b"".join(ENTRY.pack(VERSION, *transaction) for transaction in transactions)


def decode(data: Buffer) -> list[AbortedTransaction]:
    """Return the transactions, in the file's order.

    Raises:
        StoredFormatError: the size is not a multiple of 34, another version, or offsets that are
            negative or the wrong way round.
    """
    if len(data) % ENTRY_BYTES:
        raise StoredFormatError(f"transaction index: {len(data)} bytes are no whole entries")
    transactions: list[AbortedTransaction] = []
    for version, *fields in ENTRY.iter_unpack(data):
        number = len(transactions)
        if version != VERSION:
            raise StoredFormatError(f"transaction index: entry {number} has version {version}")
        transaction = AbortedTransaction(*fields)
        if not 0 <= transaction.first_offset <= transaction.last_offset:
            raise StoredFormatError(f"transaction index: entry {number} is {transaction}")
        transactions.append(transaction)
    return transactions
