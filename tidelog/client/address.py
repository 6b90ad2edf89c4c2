"""Address: where a broker listens, from the text people write."""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_PORT: Final = 9091


class Address(NamedTuple):
    """Host and port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, default_port: int = DEFAULT_PORT) -> Address:
        """Read "host", "host:port", "[::1]:port" or ":port".

        Raises:
            ValueError: the port is not a number from 1 to 65535, or it is a URL or a list.
        """
        if set(text) & set("/, "):
            raise ValueError(f"{text!r} is not one HOST:PORT")
        host, separator, port = text.rpartition(":")
        if text.endswith("]") or not separator or (":" in host and not host.startswith("[")):
            host, port = text, str(default_port)  # no port, perhaps a bare IPv6 address
        if not port.isdigit() or not 1 <= int(port) <= 65_535:
            raise ValueError(f"{text!r}: the port must be a number from 1 to 65535")
        return cls(host.strip("[]") or "localhost", int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
