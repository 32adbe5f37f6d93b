"""Bearer tokens of the receivers and the admin pages, compared in constant time."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256

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

    def __bool__(self) -> bool:
        return bool(self._digests)

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
