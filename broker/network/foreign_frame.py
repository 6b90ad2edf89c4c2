"""Foreign frames: what came in the place of a frame's size, where that cannot be one.

Nearly always it is a client of another protocol, and the first four bytes of most protocols give
them away: whoever reads the log should not have to know that 1,195,725,856 bytes are "GET ".
"""

from __future__ import annotations

from typing import Final

from protocol.errors import FrameError

HTTP: Final = frozenset(
    (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")
)
"""How requests begin; the last one is HTTP/2's preface."""
TLS_HANDSHAKE: Final = b"\x16\x03"
"""Type and major version of a record that holds a ClientHello."""


def size_error(head: bytes, frame_bytes_max: int) -> FrameError:
    """Return the error of a frame whose size, in the four bytes of `head`, is out of bounds."""
    if head.startswith(TLS_HANDSHAKE):
        return FrameError("this is TLS, which is not spoken on this port")
    if head in HTTP:
        return FrameError("this is HTTP, which is not spoken on this port")
    size = int.from_bytes(head, "big", signed=True)
    return FrameError(f"a frame of {size} bytes is outside 2 to {frame_bytes_max}")
