"""Every maximum in one place, with its reason. Settings may lower most of them, lift none."""

from __future__ import annotations

from typing import Final

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

FRAME_BYTES_MAX: Final = 100 * 1024 * 1024
"""Kafka's socket.request.max.bytes: what a client of theirs expects to get through."""

RESPONSE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The largest answer a client of ours buffers unless told otherwise, and a fetch is cut to."""

BATCH_BYTES_MAX: Final = INT32_MAX
"""A batch's length field is an int32; recovery is bounded by this, never by a setting (R23)."""

RECORDS_PER_BATCH_MAX: Final = 2**24
"""16 M records: above what any client builds (the smallest record is 7 bytes); bounds loops."""

HEADERS_PER_RECORD_MAX: Final = 2**16
"""Above what any client sends; bounds the allocation a hostile count could ask for."""

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
"""What one batch may grow to: zstd expands zeros 32,696 times, so a cap is a must."""

BUFFERS_PER_WRITE_MAX: Final = 1024
"""IOV_MAX of Linux: more buffers in one pwritev are refused by the kernel."""
