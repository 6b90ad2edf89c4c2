"""Simple set reader: verifies a set of format 0 or 1 and hands it out in slices (R1, R28)."""

from __future__ import annotations

from typing import Final, NamedTuple

from protocol import limits
from protocol.compression import Codec
from protocol.errors import MessageTooLargeError
from protocol.identifiers import Buffer
from protocol.simple_message_set import (
    SimpleEntry,
    decompress_entry,
    inner_error,
    layout_of,
    read_entry,
    take_plain,
)

__all__ = ["SLICE_BYTES", "SimpleSetInfo", "SimpleSetReader", "check_set"]

SLICE_BYTES: Final = 64 * 1024
"""Converting this much takes under a millisecond: what one turn of an event loop may cost."""

INLINE_COMPRESSED_BYTES_MAX: Final = 16 * 1024
INLINE_DECOMPRESSED_BYTES_MAX: Final = 512 * 1024
"""A compressed message within both does not end a slice: it costs about a millisecond at most. The
second is there for the few bytes that claim to be a hundred megabytes."""

INLINE_COST_BYTES: Final = 256
"""What a compressed message takes off a slice beside its bytes: starting a codec costs about as
much as so many bytes, and there may be 1,700 messages of nothing but a header in 32 KB."""


class SimpleSetInfo(NamedTuple):
    """What is known of a set once all of it has been checked."""

    message_count: int
    """Plain messages, those inside compressed ones included."""
    shallow_count: int
    """Entries: a compressed message counts as one."""
    valid_bytes: int
    """Bytes up to the cut entry at the end, or all of them."""
    codec: Codec
    """The last entry's codec; NONE for an empty set."""


class SimpleSetReader:
    """Verifies a set and hands its payloads out in slices, for a caller that must not stall.

    Every length, magic, CRC and size is checked on the way. The set may be appended only after
    `is_done`: an error in a later slice refuses it whole. The payloads are views of the set, or of
    what was decompressed, and are valid as long as those.
    """

    __slots__ = (
        "_decompressed_bytes_left",
        "_inner",
        "_inner_position",
        "_layout",
        "_message_bytes_max",
        "_pending",
        "_pending_is_heavy",
        "_set",
        "_slice_bytes",
        "_wrapper_position",
        "codec",
        "is_done",
        "message_count",
        "shallow_count",
        "valid_bytes",
    )

    def __init__(
        self,
        message_set: Buffer,
        message_format: int,
        *,
        message_bytes_max: int = limits.INT32_MAX,
        slice_bytes: int = SLICE_BYTES,
        decompressed_bytes_max: int = limits.DECOMPRESSED_BYTES_MAX,
    ) -> None:
        """Begin at the set's first entry; nothing is checked yet.

        Args:
            message_bytes_max: For each message without its 12-byte prefix, compressed or plain.
            slice_bytes: About how much input each `next_slice` works through.
            decompressed_bytes_max: For all compressed messages of the set together.

        Raises:
            UnsupportedForMessageFormatError: not format 0 or 1.
        """
        self._set = bytes(message_set)
        self._layout = layout_of(message_format)
        self._message_bytes_max = message_bytes_max
        self._slice_bytes = slice_bytes
        self._decompressed_bytes_left = decompressed_bytes_max
        self._inner: bytes | None = None
        self._inner_position = 0
        self._wrapper_position = 0
        self._pending: SimpleEntry | None = None
        self._pending_is_heavy = False
        self.codec = Codec.NONE
        self.is_done = len(self._set) == 0
        self.message_count = 0
        self.shallow_count = 0
        self.valid_bytes = 0

    @property
    def info(self) -> SimpleSetInfo:
        """What was found; complete once `is_done`."""
        return SimpleSetInfo(
            self.message_count, self.shallow_count, self.valid_bytes, Codec(self.codec)
        )

    @property
    def pending_bytes(self) -> int:
        """How large a message the next call decompresses first, 0 if none.

        Its compressed size; or, if it has turned out to be small but to grow beyond measure, the
        size that it is known to pass.
        """
        if self._pending is None:
            return 0
        compressed_bytes = len(self._pending.payload)
        if self._pending_is_heavy and compressed_bytes <= INLINE_COMPRESSED_BYTES_MAX:
            return INLINE_DECOMPRESSED_BYTES_MAX
        return compressed_bytes

    def next_slice(self) -> list[bytes]:
        """Return the next payloads; the list may be empty, before and at the end (`is_done`).

        Raises:
            CorruptMessageError: a bad CRC, magic or size; compression inside compression.
            MessageTooLargeError: a message, or what is decompressed, is over its limit.
            UnsupportedCompressionError: attribute bits or a codec that format 1 does not have.
        """
        payloads: list[bytes] = []
        if self._pending_is_heavy:  # the caller has had its chance
            self.decompress_pending()
        budget_bytes = self._slice_bytes
        while budget_bytes > 0 and not self.is_done:
            if self._inner is not None:
                budget_bytes -= self._take_inner(self._inner, payloads, budget_bytes)
            elif self._pending is None:
                budget_bytes -= self._take_outer(payloads, budget_bytes)
            elif not self._pending_is_heavy:
                self._try_inline()
                budget_bytes -= INLINE_COST_BYTES
            else:
                break
        self.message_count += len(payloads)
        return payloads

    def decompress_pending(self) -> None:
        """Decompress the message that `pending_bytes` tells of; no other call may run beside it.

        `next_slice` does this by itself. A caller may do it before, in a thread (the codecs let
        go of the GIL), so that a large message does not hold up the loop.
        """
        if self._pending is not None:
            self._decompress(self._decompressed_bytes_left)

    def _try_inline(self) -> None:
        size_bytes_max = min(self._decompressed_bytes_left, INLINE_DECOMPRESSED_BYTES_MAX)
        try:
            self._decompress(size_bytes_max)
        except MessageTooLargeError:
            if size_bytes_max == self._decompressed_bytes_left:
                raise
            self._pending_is_heavy = True

    def _decompress(self, size_bytes_max: int) -> None:
        entry = self._pending
        assert entry is not None
        inner = decompress_entry(entry, size_bytes_max=size_bytes_max)
        self._decompressed_bytes_left -= len(inner)
        self._pending, self._pending_is_heavy = None, False
        self._inner, self._inner_position = inner, 0
        self._wrapper_position = entry.position

    def _take_outer(self, payloads: list[bytes], budget_bytes: int) -> int:
        start, stop = self.valid_bytes, self.valid_bytes + budget_bytes
        count_before = len(payloads)
        position = take_plain(
            self._set, start, stop, self._layout, self._message_bytes_max, payloads
        )
        if len(payloads) > count_before:
            self.shallow_count += len(payloads) - count_before
            self.codec = Codec.NONE
        self.valid_bytes = position
        if position < stop:  # not plain, wrong, cut, or the end
            entry = read_entry(self._set, position, self._layout, self._message_bytes_max)
            if entry is None:
                self.is_done = True
            else:
                self._pending = entry
                self._pending_is_heavy = len(entry.payload) > INLINE_COMPRESSED_BYTES_MAX
                self.codec = entry.codec
                self.shallow_count += 1
                self.valid_bytes = entry.end_position
        elif position == len(self._set):
            self.is_done = True
        return self.valid_bytes - start

    def _take_inner(self, inner: bytes, payloads: list[bytes], budget_bytes: int) -> int:
        start, stop = self._inner_position, self._inner_position + budget_bytes
        position = take_plain(inner, start, stop, self._layout, self._message_bytes_max, payloads)
        self._inner_position = position
        if position == len(inner):
            self._inner = None
            self.is_done = self.valid_bytes == len(self._set)
        elif position < stop:
            raise inner_error(
                inner, position, self._layout, self._message_bytes_max, self._wrapper_position
            )
        return position - start


def check_set(
    message_set: Buffer, message_format: int, *, message_bytes_max: int = limits.INT32_MAX
) -> SimpleSetInfo:
    """Verify a whole set at once (R28); errors as `SimpleSetReader`'s."""
    reader = SimpleSetReader(message_set, message_format, message_bytes_max=message_bytes_max)
    while not reader.is_done:
        reader.next_slice()
    return reader.info
