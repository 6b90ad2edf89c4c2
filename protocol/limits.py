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

TOPIC_NAME_CHARS_MAX: Final = 249
"""Kafka's limit; with `-<partition>` it stays a legal directory name everywhere."""

PARTITIONS_PER_TOPIC_MAX: Final = 10_000
"""Each costs open state and directory entries; far above what one machine serves well."""

TOPICS_MAX: Final = 100_000
"""Bounds the registry, metadata answers and metric labels."""

REQUEST_ENTRIES_MAX: Final = 2_000
"""Of one request, where the broker does not say otherwise: clients split what has more."""

MESSAGE_ELEMENTS_MAX: Final = 25_000
"""Of all arrays of one Kafka request, tagged fields counted: ten thousand partitions with an
assignment each still fit. A frame of 100 MB could name fifty million, each of them an object; so
many as may come take 10 to 40 ms to read, in one turn of the event loop."""

OWN_ELEMENTS_MAX: Final = 100_000
"""The same of what a broker has made: an answer, as its client reads it, with the settings of a
thousand topics for one; or a group as it is stored."""

GROUP_PROTOCOLS_MAX: Final = 50
"""Of one member of a group: clients have two or three. A thousand members have to agree on one of
theirs within a turn of the event loop."""

TOPIC_SETTINGS_MAX: Final = 200
"""More settings than Kafka has names for would be a mistake or an attack."""

SETTING_BYTES_MAX: Final = INT16_MAX
"""Of one setting's text: what fits a string of any version of either protocol. A list that grows by
an entry at a time must not grow beyond what can be told."""

SEGMENT_BYTES_MAX: Final = INT32_MAX
"""Positions in the offset index are signed 32 bits (R12, R26)."""

SEGMENT_OFFSET_SPAN_MAX: Final = INT32_MAX
"""Relative offsets in both indexes are signed 32 bits (R26)."""

BUFFERS_PER_WRITE_MAX: Final = 1024
"""IOV_MAX of Linux: more buffers in one pwritev are refused by the kernel."""
