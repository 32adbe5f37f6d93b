"""Addresses to listen on."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Listen:
    """A host and a port; port 0 is any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `host:port`, `[::1]:port`. Raises ValueError, which says what was expected."""
        host, colon, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else -1
        if not colon or not host or not 0 <= number <= 65_535:
            raise ValueError("expected host:port, such as 127.0.0.1:4318")
        return cls(host, number)

    @property
    def address(self) -> str:
        """As it was written."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return self.address
