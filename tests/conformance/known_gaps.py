"""Recordings that are not read right, each with the reason in `truth.json`: tests of them may fail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from conformance import recordings


def or_known_gap(names: Iterable[str], *, strict: bool = False) -> list[Any]:
    """Return names as parameters of a test that may fail for those with a known gap, or must if it is `strict`."""
    return [_marked(name, strict=strict) for name in names]


def _marked(name: str, *, strict: bool) -> Any:
    gap = recordings.TRUTH["files"][name].get("known_gap")
    return pytest.param(name, marks=pytest.mark.xfail(reason=gap, strict=strict)) if gap else name
