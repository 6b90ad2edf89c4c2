"""Bytes that a decoder must survive: anything at all, and valid ones with a wound."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from protocol.errors import TidelogError


@st.composite
def damaged(draw: st.DrawFn, valid: st.SearchStrategy[bytes]) -> bytes:
    """A valid value cut short, lengthened, with bytes changed, taken out or put in."""
    data = bytearray(draw(valid))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        wound = draw(st.sampled_from(["cut", "change", "insert", "remove"]))
        if wound == "cut":
            del data[at:]
        elif wound == "change" and at < len(data):
            data[at] = draw(st.integers(0, 255))
        elif wound == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=4))
        else:
            del data[at : at + 1]
    return bytes(data)


def any_bytes(valid: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Random bytes, which rarely get past a decoder's first check, and damaged ones, which do."""
    return st.binary(max_size=120) | damaged(valid)


def error_of(decode: Callable[[bytes], object], data: bytes) -> TidelogError | None:
    """The error of ours that `decode` raises, None if it gives a value; others pass through."""
    try:
        decode(data)
    except TidelogError as error:
        return error
    return None
