"""Lines out of pieces: split at \\n only, nothing lost, nothing invented."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli import lines
from tidelog.cli.lines import LineTooLongError, iterate_lines

BYTES = st.lists(st.sampled_from([b"\n", b"\r", b"a", b"\x00", b"\xff", b"\r\n"])).map(b"".join)


def reading(data: bytes, piece_bytes: int) -> Callable[[int], bytes]:
    """Return a `read` that gives a few bytes at a time."""
    position = 0

    def read(size: int) -> bytes:
        nonlocal position
        piece = data[position : position + min(size, piece_bytes)]
        position += len(piece)
        return piece

    return read


@given(data=BYTES, piece_bytes=st.integers(1, 20))
def test_given_any_pieces_when_split_then_joined_they_are_the_input(data, piece_bytes):
    found = list(iterate_lines(reading(data, piece_bytes)))

    assert b"".join(line + b"\n" for line in found) in (data, data + b"\n")
    assert not any(b"\n" in line for line in found)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a\n", [b"a"]),
        (b"a", [b"a"]),
        (b"a\r\nb", [b"a\r", b"b"]),
        (b"\n\na\n\n", [b"", b"", b"a", b""]),
        (b"a\x0bb\x1cc\xc2\x85d\xe2\x80\xa8e\n", [b"a\x0bb\x1cc\xc2\x85d\xe2\x80\xa8e"]),
    ],
)
def test_given_some_bytes_when_split_then_only_newlines_end_lines(data, expected):
    found = list(iterate_lines(reading(data, 1 << 20)))

    assert found == expected


def test_given_an_endless_line_when_split_then_it_is_refused_before_memory_is(monkeypatch):
    monkeypatch.setattr(lines, "FRAME_BYTES_MAX", 1000)
    read = reading(b"a\nb\n" + b"x" * 5000, 100)

    with pytest.raises(LineTooLongError, match="more than 1000 bytes") as raised:
        list(iterate_lines(read))

    assert raised.value.line_number == 3
    assert len(read(5000)) == 100  # of the pieces, no more were taken than were needed
