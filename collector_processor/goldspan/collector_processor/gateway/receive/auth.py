"""Who may send: bearer tokens, compared in a time that says nothing about them."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256

_SCHEME = "bearer "


class BearerTokens:
    """The bearer tokens that open a door; without any it is open to everybody who reaches it."""

    def __init__(self, tokens: Iterable[str] = ()) -> None:
        self._digests: tuple[bytes, ...] = ()
        self.replace(tokens)

    def replace(self, tokens: Iterable[str]) -> None:
        """Let these open the door from now on, and no others."""
        # Digests are of one length, and what is kept is of no use to who reads the memory of a crash.
        self._digests = tuple(sha256(token.encode()).digest() for token in tokens)

    def __bool__(self) -> bool:
        return bool(self._digests)

    def admit(self, authorization: str | None) -> bool:
        """Tell whether the value of an `authorization` header opens the door."""
        if not self._digests:
            return True
        given = authorization or ""
        token = given[len(_SCHEME) :] if given[: len(_SCHEME)].lower() == _SCHEME else ""
        digest = sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        # All are compared, so that the time does not tell which was near.
        found = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(found)
