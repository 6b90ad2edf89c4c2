"""What answers to one topic differ in, for properties: its name or id, and numbers."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from protocol.limits import INT32_MAX, INT64_MAX

NAMES: Final = st.text("abz.-_09", min_size=1, max_size=249)
IDS: Final = st.one_of(
    st.binary(min_size=16, max_size=16), st.sampled_from([bytes(16), b"\xff" * 16])
)
INDEXES: Final = st.one_of(st.integers(0, 300), st.integers(0, INT32_MAX))
OFFSETS: Final = st.one_of(st.integers(0, 300), st.integers(0, INT64_MAX))
CORRELATION_IDS: Final = st.integers(-INT32_MAX - 1, INT32_MAX)
