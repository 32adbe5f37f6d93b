"""Print the tables and sections of `dialects.md`, from the dialects, `dialects.toml` and what the recordings prove."""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

_HERE = Path(__file__).parent
sys.path.append(str(_HERE.parent / "tests"))

from conformance.findings import Finding, find  # noqa: E402 - only now can it be found
from conformance.recordings import NAMES  # noqa: E402
from goldspan.collector_processor.replay.hints import advice_of  # noqa: E402
from goldspan.mappers.assembly.framework_tools import PSEUDO_TOOLS  # noqa: E402
from goldspan.mappers.assembly.turn_fragments import DEFAULT_SESSION_KEYS  # noqa: E402
from goldspan.mappers.dialects import Dialect  # noqa: E402
from goldspan.mappers.installed_dialects import built_in_dialects  # noqa: E402
from goldspan.scoring.result_words import CAPTURE_WORDS  # noqa: E402

RIGHT, WRONG, NOTHING = "✓", "✗", "none"
_NO_SESSION = {"trace_id", "input", "logs"}
_READING_THE_FIRST_TABLE = f"""\
- **arguments**: recorded by default, only by a switch, or never; and where goldspan finds them.
- **session id from**: the attribute that holds it; *{NOTHING}* if the instrumentation writes none. `session_scope` of
  goldspan [works with every framework](why-nothing-is-scored.md#session-ids).
- **proof**: how many recordings are read right; *{NOTHING}* if the framework is supported without a recording. A
  recording is the telemetry of a real framework in a conversation whose turns and calls are known. It is right if
  turns, calls, order, arguments, failures and session id are. `make conformance` checks and prints every recording.
"""
_READING = """\
Run `goldspan dialects` to see in which attributes each dialect finds tool names, arguments and call ids; its file in
`mappers/goldspan/mappers/dialects/` has the whole table. If the span of a tool lacks a fact, goldspan takes it from the
span nested in it, from log records, or from the model's request. In every dialect a call failed if its span has error
status or `error.type`. Without agent spans and without a session id every model call is a turn of its own.
"""


_WORDS = re.compile(r"[A-Za-z_]*[a-z_][A-Z_][A-Za-z_]*")
"""Names of variables, options and functions: what tells two switches apart."""


@dataclass(frozen=True)
class Framework:
    """One framework as one instrumentation writes it, and its recordings."""

    name: str
    by: str = ""
    recordings: tuple[str, ...] = ()
    dialect: str = ""
    language: str = "python"
    default: str = ""
    arguments: str = ""
    session: str = ""
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def page() -> str:
    """Return the parts."""
    dialects, listed = built_in_dialects(), frameworks()
    return "\n".join(
        [
            "## At a glance",
            "",
            *_glance(listed, {dialect.name: _title(dialect) for dialect in dialects}),
            "",
            _READING_THE_FIRST_TABLE,
            _READING,
            *(line for dialect in dialects for line in _section(dialect, listed)),
            *_common(),
        ]
    )


def frameworks(described: Path = _HERE / "dialects.toml") -> list[Framework]:
    """List the frameworks with what was found in their recordings; a recording of none is listed by itself."""
    left = {name: find(name) for name in NAMES}
    listed: list[Framework] = []
    for entry in tomllib.loads(described.read_text("utf-8"))["framework"]:
        one = Framework(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})
        names = [name for name in left if any(fnmatchcase(name, pattern) for pattern in one.recordings)]
        listed.append(_placed(replace(one, findings=tuple(left.pop(name) for name in names))))
    return listed + [_placed(Framework(f"`{name}`", findings=(finding,))) for name, finding in left.items()]


def _placed(framework: Framework) -> Framework:
    """Put it under the dialect of most of its calls, unless it says where it belongs."""
    if framework.dialect:
        return framework
    dialects = Counter(dialect for finding in framework.findings for dialect in finding.dialects[:1])
    if not dialects:
        raise SystemExit(f"dialects.toml: {framework.name}: no recording tells its dialect; name it")
    return replace(framework, dialect=dialects.most_common(1)[0][0])


# -- the first table


def _glance(listed: Sequence[Framework], titles: dict[str, str]) -> Iterator[str]:
    yield from _head("framework", "instrumented by", "arguments", "session id from", "proof")
    for framework in sorted(listed, key=lambda one: one.name.lower()):
        title = titles[framework.dialect]
        by = f"[{framework.by or title}](#{framework.dialect})"
        yield _row(framework.name, by, _arguments(framework), _sessions(framework.findings), _proof(framework.findings))


def _arguments(framework: Framework) -> str:
    places = dict.fromkeys(place for one in framework.findings for place in one.places if place not in _UNKNOWN)
    words = {"on": "default", "off": "switch", "never": "never"}.get(framework.default, "")
    return ": ".join(part for part in (words, ", ".join(places)) if part) or NOTHING


def _sessions(findings: Iterable[Finding]) -> str:
    keys = dict.fromkeys(key for one in findings for key in one.session_keys if key not in _NO_SESSION)
    return ", ".join(_code(key) for key in keys) or NOTHING


def _proof(findings: Sequence[Finding]) -> str:
    right = sum(not one.wrong for one in findings)
    if not findings:
        return NOTHING
    return f"{RIGHT if right == len(findings) else WRONG} {right}/{len(findings)}"


_UNKNOWN = {capture.value: words for capture, words in CAPTURE_WORDS.items() if capture.value != "captured"}


# -- a section


def _section(dialect: Dialect, listed: Sequence[Framework]) -> Iterator[str]:
    mine = [framework for framework in listed if framework.dialect == dialect.name]
    docs = getattr(dialect, "docs", "")
    yield f"## {dialect.name}"
    yield ""
    yield _title(dialect) + (f", [documentation]({docs})" if docs else "")
    yield ""
    said = {"", "written by default"}
    advised = " ".join(text for one in advice_of(dialect) for text in (one.arguments, one.session))
    for framework in mine:
        for text in (framework.arguments, framework.session):
            if set(_WORDS.findall(text)) <= set(_WORDS.findall(advised)):
                said.add(text)
        yield from _described(framework, said)
    for one in (finding for framework in mine for finding in framework.findings):
        if one.known_gap:
            yield f"{WRONG} `{one.name}`: {one.known_gap}."
            yield ""


def _described(framework: Framework, said: set[str]) -> Iterator[str]:
    """Yield what neither the table nor `switches.md` says of a framework, and its section has not `said` before."""
    switches = {"arguments": framework.arguments, "session id": framework.session}
    lines = [f"- {name}: {text}" for name, text in switches.items() if text not in said]
    said.update(switches.values())
    lines += (f"- {note}" for note in framework.notes)
    if lines:
        yield f"**{framework.name}**" + (f", by {framework.by}" if framework.by else "")
        yield ""
        yield from lines
        yield ""


# -- what holds for all


def _common() -> Iterator[str]:
    yield "## Session ids"
    yield ""
    yield "In every dialect the session id is the value of the first of these keys that is set. goldspan looks at the"
    yield "turn's root, then at the spans above it, below it, elsewhere in its trace, at the resource, its logs."
    yield ""
    yield from (f"{number}. {_code(key)}" for number, key in enumerate(DEFAULT_SESSION_KEYS, start=1))
    yield ""
    yield "## Tools of the framework"
    yield ""
    yield f"goldspan does not count calls of {_codes(sorted(PSEUDO_TOOLS))}: they belong to the framework, not to you."
    yield ""


# -- Markdown


def _title(dialect: Dialect) -> str:
    return getattr(dialect, "title", "") or dialect.name


def _head(*cells: str) -> list[str]:
    return [_row(*cells), "|" + "---|" * len(cells)]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _code(text: str) -> str:
    return f"`{text}`"


def _codes(texts: Iterable[str]) -> str:
    return ", ".join(map(_code, texts))


if __name__ == "__main__":
    sys.stdout.write(page())
