"""Print the tables of `switches.md` from the advice of the dialects."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from goldspan.collector_processor.replay.hints import GENERAL, LANGUAGES, SET_SESSION, advice_of
from goldspan.mappers.dialects import Advice
from goldspan.mappers.dialects.reading.protocol import IN_PROCESS
from goldspan.mappers.installed_dialects import built_in_dialects

_MOST_SCOPES = 3
_TABLE = """\
| framework | scope | tool arguments | session id | checked with |
|---|---|---|---|---|"""


def page() -> str:
    """Return the tables."""
    advice = [one for dialect in built_in_dialects() for one in advice_of(dialect)]
    lines = []
    for language, name in sorted(LANGUAGES.items(), key=lambda item: item[1].strip(".")):
        lines += [f"## {name}", "", _TABLE, *_rows(advice, language), ""]
        lines += [f"With every framework, to name a session: {SET_SESSION[language]}", ""]
    lines += ["## Any language", "", _TABLE, *_rows(advice, "")]
    general = Advice(GENERAL.arguments, SET_SESSION[""].capitalize(), GENERAL.calls, framework="all others")
    lines += [_row(general), ""]
    return "\n".join(lines)


def _rows(advice: list[Advice], language: str) -> Iterator[str]:
    mine = (one for one in advice if one.language == language)
    yield from dict.fromkeys(_row(one) for one in sorted(mine, key=lambda one: one.framework.lower()))


def _row(advice: Advice) -> str:
    texts = {"": advice.arguments, "redacted: ": advice.redacted, "without names: ": advice.unparsable}
    if advice.calls:
        texts["calls not visible: "] = advice.calls
    seen: dict[str, str] = {}
    for words, text in texts.items():
        seen.setdefault(text, words)
    arguments = "<br>".join(f"{words}{_cell(text)}" for text, words in seen.items() if text)
    scopes = [f"`{one}`" for one in advice.scopes if one != "*" and one.removesuffix(".*") not in advice.scopes]
    shown = scopes if len(scopes) <= _MOST_SCOPES else [*scopes[:_MOST_SCOPES], f"{len(scopes) - _MOST_SCOPES} more"]
    session = _cell(advice.session.replace(IN_PROCESS, "`session_scope`"))
    return f"| {advice.framework} | {', '.join(shown)} | {arguments} | {session} | {advice.checked} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.stdout.write(page())
