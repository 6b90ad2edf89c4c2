"""The header checksum of LZ4 frames, right and wrong (R3, KAFKA-3160)."""

from __future__ import annotations

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.legacy_lz4 import with_legacy_checksum, with_right_checksum, xxh32


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_given_published_inputs_when_hashed_then_the_published_digests(data, digest):
    """R3: XXH32 with seed 0, as in the documents of its implementations."""
    assert xxh32(data) == digest


@given(
    data=st.binary(max_size=300),
    store_size=st.booleans(),
    content_checksum=st.booleans(),
    block_linked=st.booleans(),
)
def test_given_any_frame_when_made_wrong_and_mended_then_it_is_as_before(
    data, store_size, content_checksum, block_linked
):
    """R3: only one byte differs; the library's own checksum is the one we compute."""
    frame = lz4.frame.compress(
        data,
        store_size=store_size,
        content_checksum=content_checksum,
        block_linked=block_linked,
    )

    wrong = with_legacy_checksum(frame)

    assert sum(ours != theirs for ours, theirs in zip(wrong, frame, strict=True)) <= 1
    assert with_right_checksum(wrong) == frame
    assert with_right_checksum(frame) == frame


@given(data=st.binary(max_size=30), with_magic=st.booleans())
def test_given_what_is_no_frame_when_mended_then_nothing_breaks(data, with_magic):
    """R3: the decompressor has the last word; here at most one byte changes."""
    frame = b"\x04\x22\x4d\x18" + data if with_magic else data

    mended = with_right_checksum(frame)

    assert len(mended) == len(frame)
    assert sum(ours != theirs for ours, theirs in zip(mended, frame, strict=True)) <= 1
