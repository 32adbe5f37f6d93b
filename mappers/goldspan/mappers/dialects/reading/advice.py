"""What a user must switch on where a recording lacks something, in the words of their framework and language."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import NamedTuple

from goldspan.mappers.spans import Attributes, SpanView

ANY_SCOPE = "*"
IN_PROCESS = 'Run each turn inside `with session_scope("..."):` of goldspan.collector_processor.'
"""Names the session of any framework in Python, with goldspan's span processor in the agent's process."""
_SAME_LANGUAGE = {"webjs": "nodejs"}


class Stack(NamedTuple):
    """What wrote a span; `""` is unknown."""

    language: str = ""
    """`telemetry.sdk.language`; a browser's is `nodejs`, too."""
    scope: str = ""
    """The instrumentation scope."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What the users of one framework switch on where a recording lacks something: exact variables and calls."""

    arguments: str = ""
    session: str = ""
    calls: str = ""
    """Where turns lack calls that were made; without it, what helps with `arguments` does."""
    redacted: str = ""
    """Where the instrumentation itself replaces arguments by words such as `__REDACTED__`."""
    unparsable: str = ""
    """Where the instrumentation writes some arguments in a form that has no names."""
    framework: str = ""
    language: str = ""
    """`telemetry.sdk.language` of whom the advice is for; `""` for all languages."""
    scopes: tuple[str, ...] = (ANY_SCOPE,)
    """Patterns of instrumentation scopes."""
    checked: str = ""
    """The versions whose source or documentation says so."""


def language_of(resource: Attributes) -> str:
    """Return the language of what wrote a resource's spans; `""` if it is not said."""
    language = resource.get("telemetry.sdk.language")
    return _SAME_LANGUAGE.get(language, language) if isinstance(language, str) else ""


def stack_of(span: SpanView) -> Stack:
    """Return what wrote a span."""
    return Stack(language_of(span.resource.attributes), span.scope_name)


def advice_for(own: tuple[Advice, ...], others: Iterable[Advice], stack: Stack) -> Advice | None:
    """Return the advice for a stack; none where its language or its framework is not known.

    `own` is the advice of the dialect that read the span. One scope writes spans of several dialects, so that `others`,
    the advice of all dialects, is asked for those that name the scope.
    """
    one_language = len({one.language for one in own}) == 1
    return (
        _most_specific(own, stack)
        or next((one for one in own if not one.language and ANY_SCOPE in one.scopes), None)
        or _most_specific(others, stack)
        or next((one for one in own if _fits(one, stack, told=one_language) and ANY_SCOPE in one.scopes), None)
    )


def _most_specific(advice: Iterable[Advice], stack: Stack) -> Advice | None:
    """Return the advice with the longest pattern, other than any, that fits the scope; none if several languages do."""
    fitting = [
        (len(pattern), one)
        for one in advice
        for pattern in one.scopes
        if pattern != ANY_SCOPE and fnmatchcase(stack.scope, pattern) and _fits(one, stack, told=True)
    ]
    longest = max(map(itemgetter(0), fitting), default=0)
    found = [one for length, one in fitting if length == longest]
    return found[0] if len({one.language for one in found}) == 1 else None


def _fits(advice: Advice, stack: Stack, *, told: bool) -> bool:
    """Say whether the language fits; where spans do not say theirs, something else may have `told` it."""
    return advice.language in {"", stack.language} or (told and not stack.language)
