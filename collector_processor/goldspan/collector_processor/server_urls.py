"""URLs of servers, as users name them."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_NO_URL_HAS = re.compile(r"[^!-~]")  # white space, control characters, and what is no ASCII


def check_url(value: object, expected: str, secrets: str) -> str:
    """Return the URL of a server, to which paths can be added.

    Raises ValueError: `found ..., expected ...`; it is no such URL, or it holds a user name or a password, which would
    stand in logs and are not sent. `secrets` says what takes these.
    """
    text = value if isinstance(value, str) else ""
    if "@" in text:
        raise ValueError(f"found `@`: a URL may hold no user name and no password, which logs show; {secrets}")
    for mark in ("?", "#"):
        if mark in text:
            raise ValueError(f"found `{mark}`: a URL may hold nothing behind its path, which logs show; {secrets}")
    try:
        parts = urlsplit(text)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or _NO_URL_HAS.search(text):
        from goldspan.scoring.json_values import shown  # noqa: PLC0415 - for the mistake alone

        raise ValueError(f"found {shown(value)}, expected {expected}")
    return text
