"""Print `dialects.md` from the dialects' declarations, `dialects.toml` and what the recordings prove.

python docs/generate_dialects.py > docs/dialects.md
"""

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
from goldspan.collector_processor.replay.hints import CAPTURE_WORDS, advice_of  # noqa: E402
from goldspan.mappers.assembly import DEFAULT_SESSION_KEYS, PSEUDO_TOOLS  # noqa: E402
from goldspan.mappers.dialects import Affixes, Dialect, DialectTable, Rule, Source  # noqa: E402
from goldspan.mappers.facts import Role  # noqa: E402
from goldspan.mappers.installed_dialects import built_in_dialects  # noqa: E402

RIGHT, WRONG, NOTHING = "✓", "✗", "none"
_NO_SESSION = {"trace_id", "input", "logs"}
_SERVER = 2
_HEAD = """\
# Dialects

<!-- Made by docs/generate_dialects.py from the dialects, docs/dialects.toml and the recordings. -->

A dialect is one instrumentation's way of writing tool calls. goldspan reads those below, tells them apart span by span,
and reads several in one trace, or on one span. `goldspan dialects` prints them for the version you have;
`goldspan inspect TRACES` says what it recognised in your own traces, and what to switch on there.

What is said here of recordings was computed when this page was made. A recording is what a real framework wrote of a
conversation whose turns and calls are known; `make conformance` reads all of them and holds what it finds against what
was played.
"""
_READING_THE_FIRST_TABLE = f"""\
- **arguments**: whether they are written by default, by a switch or never, and where they are then found.
- **session id from**: the attribute it was found in; *{NOTHING}* where the instrumentation writes none by itself. The
  framework's section says what to do about it, and `session_scope` of goldspan
  [works with every one](why-nothing-is-scored.md#session-ids).
- **proof**: how many of the recordings are read right; *{NOTHING}* where it is read and not recorded here.
"""
_READING_THE_SECTIONS = f"""\
## How to read the sections

Each section shows where a dialect finds what: the first place of a list that holds something counts. What a tool's span
does not hold is taken from the span nested in it, from its log records, or from what the model asked for.

Its last table tells what was found in each recording. {RIGHT} says that turns, calls, order, arguments (or why they are
not known), failures and session are all as they were played; the order of calls that were asked for at once does not
count. *Not visible*: the recording does not show whether a call failed. Without agent spans and without a session id
every model call is a turn of its own: nothing says which of them belong together.
"""


@dataclass(frozen=True)
class Framework:
    """One framework as one instrumentation writes it, and its recordings."""

    name: str
    by: str = ""
    recordings: tuple[str, ...] = ()
    dialect: str = ""
    default: str = ""
    arguments: str = ""
    session: str = ""
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def page() -> str:
    """Return the whole page."""
    dialects, listed = built_in_dialects(), frameworks()
    return "\n".join(
        [
            _HEAD,
            "## At a glance",
            "",
            *_glance(listed, {dialect.name: _title(dialect) for dialect in dialects}),
            "",
            _READING_THE_FIRST_TABLE,
            _READING_THE_SECTIONS,
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
        by = f"[{framework.by or title}](#{_anchor(title)})"
        yield _row(framework.name, by, _arguments(framework), _sessions(framework.findings), _proof(framework.findings))


def _arguments(framework: Framework) -> str:
    places = dict.fromkeys(place for one in framework.findings for place in one.places if place not in _UNKNOWN)
    words = {"on": "by default", "off": "by a switch", "never": "never"}.get(framework.default, "")
    return ": ".join(part for part in (words, ", ".join(places)) if part) or NOTHING


def _sessions(findings: Iterable[Finding]) -> str:
    keys = dict.fromkeys(key for one in findings for key in one.session_keys if key not in _NO_SESSION)
    return ", ".join(_code(key) for key in keys) or NOTHING


def _proof(findings: Sequence[Finding]) -> str:
    right = sum(not one.wrong for one in findings)
    if not findings:
        return NOTHING
    return f"{RIGHT if right == len(findings) else WRONG} {right} of {len(findings)}"


_UNKNOWN = {capture.value: words for capture, words in CAPTURE_WORDS.items() if capture.value != "captured"}


# -- a section


def _section(dialect: Dialect, listed: Sequence[Framework]) -> Iterator[str]:
    mine = [framework for framework in listed if framework.dialect == dialect.name]
    docs = getattr(dialect, "docs", "")
    yield f"## {_title(dialect)}"
    yield ""
    yield _code(dialect.name) + (f", [documentation]({docs})" if docs else "")
    yield ""
    yield from _head("what", "where")
    declared = _declared(dialect) if isinstance(dialect, DialectTable) else [("markers", _codes(dialect.markers))]
    yield from (_row(what, where) for what, where in declared if where)
    yield ""
    for framework in mine:
        yield from _described(framework, dialect)
    findings = [finding for framework in mine for finding in framework.findings]
    if findings:
        yield from _head("recording", "turns", "calls", "arguments", "failed", "session id from", "read as", "")
        yield from (_finding(one) for one in findings)
        yield ""
    for one in findings:
        if one.known_gap:
            yield f"{WRONG} `{one.name}`: {one.known_gap}."
            yield ""


def _described(framework: Framework, dialect: Dialect) -> Iterator[str]:
    advice = advice_of(dialect)
    yield f"**{framework.name}**" + (f", by {framework.by}" if framework.by else "")
    yield ""
    yield f"- arguments: {framework.arguments or advice.arguments or 'nothing to switch on'}"
    yield f"- session id: {framework.session or advice.session or 'nothing to switch on'}"
    yield from (f"- {note}" for note in framework.notes)
    yield ""


def _finding(one: Finding) -> str:
    places = [(count, _UNKNOWN.get(place, place)) for place, count in one.places.items()]
    return _row(
        _code(one.name),
        str(one.turns),
        str(one.calls),
        ", ".join(f"{count} {place}" if len(places) > 1 else place for count, place in places),
        str(one.failed) if one.failures_visible else "not visible",
        _sessions([one]),
        ", ".join(map(_code, one.dialects)),
        WRONG if one.wrong else RIGHT,
    )


def _declared(table: DialectTable) -> list[tuple[str, str]]:
    named = _codes(table.tool_name) + _affixes(table.name_affixes) + (", else " if table.tool_name else "")
    flags = [f"{_code(key)} = {_code(str(value).lower())}" for key, value in table.error_flags]
    pseudo = [*sorted(table.pseudo_tools), *sorted(table.merged_tools), *(f"{one}*" for one in table.pseudo_requests)]
    log = "" if table.log_scope is None else ", ".join(map(_code, sorted(table.log_events)))
    scope = f" of scopes {_code(table.log_scope + '*')}" if table.log_scope else ""
    return [
        ("a tool", _rules(table, Role.TOOL)),
        ("an agent", _rules(table, Role.AGENT)),
        ("a model call", _rules(table, Role.MODEL)),
        ("tool name", f"{named}the span's name{_affixes(table.span_name_affixes)}"),
        ("arguments", _places(table.arguments, table.flattened_arguments)),
        ("call id", _places(table.call_id)),
        ("result", _places(table.result)),
        ("failure", ", ".join(["error status", "`error.type`", *flags])),
        ("requests", _places(table.output)),
        ("turn id", _codes(table.turn_id)),
        ("session id", _codes(table.session_keys, " beside [those read of all](#session-ids)")),
        ("log records", log + scope),
        ("no calls of", _codes(pseudo)),
    ]


def _rules(table: DialectTable, role: Role) -> str:
    return "; or ".join(_condition(rule) for rule in table.rules if rule.role is role)


def _condition(rule: Rule) -> str:
    parts: list[str] = []
    if rule.key:
        values = f" = {' / '.join(map(_code, sorted(rule.values)))}" if rule.values else ""
        parts.append(_code(rule.key) + values)
    parts += [f"with {' and '.join(map(_code, rule.also))}"] if rule.also else []
    parts += [f"without {' and '.join(map(_code, rule.without))}"] if rule.without else []
    if rule.scope:
        parts.append(f"in scope {_code(rule.scope + '*')}")
    if rule.name_prefix or rule.name_suffix:
        parts.append(f"named {_code(f'{rule.name_prefix}*{rule.name_suffix}')}")
    if rule.kind:
        parts.append("of a server" if rule.kind == _SERVER else f"of kind {rule.kind}")
    if rule.parent is not None:
        parts.append("with a parent" if rule.parent else "without a parent")
    return " ".join(parts)


def _places(sources: Sequence[Source], flattened: str = "") -> str:
    places = [_place(source) for source in sources]
    return ", ".join([*places, *([_code(flattened + "*")] if flattened else [])])


def _place(source: Source) -> str:
    if source.event:
        return f"{_code(source.key)} of event {_code(source.event)}"
    return _code(source.key) if source.key else "several attributes or events together"


def _affixes(affixes: Affixes) -> str:
    around = [f"{one}*" for one in affixes.prefixes] + [f"*{one}" for one in affixes.suffixes]
    return f" without {_codes(around)}" if around else ""


# -- what holds for all


def _common() -> Iterator[str]:
    yield "## Session ids"
    yield ""
    yield "In every dialect the session id is the value of the first of these keys that is there: on the turn's root,"
    yield "above it, below it, elsewhere in its trace, on the resource, in its log records."
    yield ""
    yield from (f"{number}. {_code(key)}" for number, key in enumerate(DEFAULT_SESSION_KEYS, start=1))
    yield ""
    yield "## Tools that are no tools"
    yield ""
    yield f"In every dialect, tools named {_codes(sorted(PSEUDO_TOOLS))} are the framework's own: no calls."
    yield ""


# -- Markdown


def _title(dialect: Dialect) -> str:
    return getattr(dialect, "title", "") or dialect.name


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _head(*cells: str) -> list[str]:
    return [_row(*cells), "|" + "---|" * len(cells)]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _code(text: str) -> str:
    return f"`{text}`"


def _codes(texts: Iterable[str], then: str = "") -> str:
    shown = ", ".join(map(_code, texts))
    return shown + then if shown else ""


if __name__ == "__main__":
    sys.stdout.write(page())
