"""OffsetMap: the last offset of each key in the dirty part of a log, in a fixed amount of memory.

Of a key only a hash of 16 bytes is kept (BLAKE2b, so nobody can make two keys that share one), as
Kafka's cleaner does with MD5: 24 bytes a slot, whatever the keys are. A dict of the same content
takes 170 bytes a key and grows by doubling; a call here costs 1 to 2 microseconds more than one of
a dict, beside 10 or so for the record that it is asked for.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from struct import Struct
from typing import Final

HASH_BYTES: Final = 16
SLOT_BYTES: Final = HASH_BYTES + 8
SLOTS_MIN: Final = 3
LOAD_MAX: Final = 0.9
"""The share of slots that may be taken, as in Kafka: a search takes 10 looks there, on average."""
LOAD_WANTED: Final = 0.5
"""Where there is memory enough: 2 looks."""

NOT_FOUND: Final = -1

_halves = Struct("<QQ").unpack


class OffsetMap:
    """A hash table with open addressing and double hashing: the number of slots is prime.

    A slot is three numbers side by side, so that a look is at one place of the memory: both halves
    of the hash (zeros in an empty one), and the offset.
    """

    __slots__ = ("_slots", "_table", "keys", "keys_max")

    def __init__(self, size_bytes_max: int, *, keys_expected: int) -> None:
        """Args:
        size_bytes_max: What the table may take.
        keys_expected: As many as will be put at most: for fewer it need not be that large.
        """
        slots = min(size_bytes_max // SLOT_BYTES, int(keys_expected / LOAD_WANTED) + SLOTS_MIN)
        self._slots = _prime_at_or_below(max(slots, SLOTS_MIN))
        self._table = array("Q", bytes(SLOT_BYTES * self._slots))
        self.keys_max = max(1, int(self._slots * LOAD_MAX))
        """Further ones do not go in."""
        self.keys = 0
        """How many there are."""

    @property
    def size_bytes(self) -> int:
        """What the table takes."""
        return SLOT_BYTES * self._slots

    def put(self, key: bytes, offset: int) -> bool:
        """Note the offset of a key, in the place of an earlier one; False: there is no room."""
        first, second = _halves(blake2b(key, digest_size=HASH_BYTES).digest())
        table, slots = self._table, self._slots
        slot = first % slots
        while (there := table[at := 3 * slot]) != first or table[at + 1] != second:
            if not there and not table[at + 1]:
                if self.keys >= self.keys_max:
                    return False
                table[at], table[at + 1] = first, second
                self.keys += 1
                break
            slot = (slot + 1 + second % (slots - 1)) % slots
        table[at + 2] = offset
        return True

    def get(self, key: bytes) -> int:
        """Return the last offset that was put for a key; -1 if there is none."""
        first, second = _halves(blake2b(key, digest_size=HASH_BYTES).digest())
        table, slots = self._table, self._slots
        slot = first % slots
        while (there := table[at := 3 * slot]) != first or table[at + 1] != second:
            if not there and not table[at + 1]:
                return NOT_FOUND
            slot = (slot + 1 + second % (slots - 1)) % slots
        offset: int = table[at + 2]
        return offset


def _prime_at_or_below(number: int) -> int:
    """Every step is then prime to the number of slots, so a search comes by all of them."""
    while number > 3 and any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number -= 1
    return number
