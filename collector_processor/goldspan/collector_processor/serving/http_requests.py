"""What the applications of the HTTP server share: paths, headers, bearer tokens and whole responses."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

_SCHEME = "bearer "


class BearerTokens:
    """The accepted bearer tokens. Without any, every request is accepted."""

    def __init__(self, tokens: Iterable[str] = ()) -> None:
        self._digests: tuple[bytes, ...] = ()
        self.replace(tokens)

    def replace(self, tokens: Iterable[str]) -> None:
        """Accept these tokens from now on, and no others."""
        # Digests have one length, and a memory dump of them reveals no token.
        self._digests = tuple(sha256(token.encode()).digest() for token in tokens)

    def admit(self, authorization: str | None) -> bool:
        """Tell whether the value of an `authorization` header holds an accepted token."""
        if not self._digests:
            return True
        value = authorization or ""
        token = value[len(_SCHEME) :] if value[: len(_SCHEME)].lower() == _SCHEME else ""
        digest = sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        # Compares with every token, so that the time does not tell which one was near.
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(matches)


async def send_response(send: Send, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
    """Send a whole response."""
    encoded = [(name.encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def path_of(scope: Mapping[str, Any]) -> str:
    """Return the path as it was sent: what a proxy in front of the gateway compared its rules with."""
    path: bytes = scope["raw_path"]
    return path.decode("latin-1")


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of a request by lower-case name. Values of a repeated header are joined with commas."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
