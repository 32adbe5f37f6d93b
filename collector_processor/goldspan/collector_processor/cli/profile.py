"""`goldspan profile`: what is normal for an agent's arguments, and what a person says of what deviates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from goldspan.collector_processor.atomic_files import write_text
from goldspan.collector_processor.cli.input_output import (
    TRACES,
    NamedTraces,
    complain,
    end,
    file_errors,
    open_traces,
    options,
    read_with_progress,
)
from goldspan.collector_processor.daemon_threads import MetricWorkers
from goldspan.collector_processor.golden_tools.updating import GoldenFile
from goldspan.collector_processor.golden_tools.writing import golden_set_text, yaml_text
from goldspan.collector_processor.replay.inspection import inspect_spans
from goldspan.collector_processor.replay.replay import replay
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.scoring.goldens import GoldenIndex, load_goldens
from goldspan.scoring.json_values import steps_of
from goldspan.scoring.matchers import escape_literal
from goldspan.scoring.metrics.argument_profile import (
    FEWEST_SESSIONS,
    NOT_PASSED,
    USUAL_ORIGIN,
    Check,
    Family,
    Profile,
    learn,
)
from goldspan.scoring.metrics.profile_file import load_profile, profile_document
from goldspan.scoring.pages import counted, printable
from goldspan.scoring.ranked_findings import RankedFinding, rank_findings, with_own_profile
from goldspan.scoring.result_words import GROUNDING
from goldspan.scoring.run import scorer_of
from goldspan.scoring.tool_definitions import load_tools

_HEADER = (
    "What is normal for an agent's arguments: in how many sessions what was seen. It holds no values.",
    "Review it like a golden set. At a place, `off: [shape]` leaves a family out, and `pin: [type]` holds what most",
    "sessions have; `generated` names arguments whose values the agent makes itself.",
)
_WRONG_SET = "What a person found wrong in production: no session may do it again."
_KEYS = {"e": "expected", "w": "wrong", "s": "", "q": "end"}


@click.group()
def profile() -> None:
    """Learn what is normal for an agent's arguments, without goldens."""


@profile.command(name="learn")
@TRACES
@options("profile learn")
def learn_profile(traces: NamedTraces, *, output: str, others: tuple[str, ...], tools_file: str | None) -> None:
    """Learn from TRACES, right and wrong ones alike: what few sessions do is what deviates.

    Score by it with `goldspan score TRACES --profile FILE`, or with `profile=` behind any other door. What a person
    wrote into FILE before (off, pin, generated) stays.
    """
    with file_errors(), open_traces(traces) as files:
        tools = None if tools_file is None else load_tools(tools_file)
        merged = [load_profile(name) for name in others]
        kept = _known(output)
        registry = DialectRegistry(definitions=True, on_problem=files.problems.append)
        with read_with_progress(files) as views:
            sessions = inspect_spans(views, registry, files.problems, content=True).sessions
        found = reduce(Profile.plus, merged, learn(sessions, tools))
        found = found.plus(replace(kept, sessions={}, counts={}))
        write_text(output, _profile_text(found))
        places = len({check[:3] for check in found.counts})
        seen = [f"{counted(count, 'session')} of {name or 'an agent'}" for name, count in found.sessions.items()]
        complain([f"{Path(output).name}: {', '.join(seen) or 'no session'}, {counted(places, 'place')} of arguments"])
        if not any(map(found.knows, found.sessions)):
            complain([f"a profile of fewer than {FEWEST_SESSIONS} sessions judges nothing: learn from more"])
        end(files.mistakes, 0)


@profile.command()
@TRACES
@options("profile review")
def review(
    traces: NamedTraces,
    *,
    profile_file: str,
    golden_file: str | None,
    expected: tuple[str, ...],
    wrong: tuple[str, ...],
) -> None:
    """Ask about what `goldspan score TRACES` finds, the rarest and worst first, with one key an answer.

    What is expected becomes a rule of the profile (generated, off); what is wrong becomes a call that the golden set
    forbids. With --expected and --wrong (refund.request_id) nothing is asked.
    """
    with file_errors(), open_traces(traces) as files:
        if golden_file is not None and Path(golden_file).exists():
            load_goldens(golden_file)  # says before the work, not after it, what is wrong in it
        known = _known(profile_file)
        by = profile_file if Path(profile_file).exists() else None
        registry = DialectRegistry(definitions=True, on_problem=files.problems.append)
        scorer = scorer_of(metrics=None, has_goldens=False, profile=by, run=MetricWorkers())
        with read_with_progress(files, registry.markers) as views:
            result = replay(views, GoldenIndex(sample=1), registry, problems=files.problems, scorer=scorer).result
        found = rank_findings(with_own_profile(result.sessions))
        answers = dict.fromkeys(expected, "expected") | dict.fromkeys(wrong, "wrong")
        answered = list(_answered([*found.rare, *found.systematic], answers))
        rules = [one for one, answer in answered if answer == "expected"]
        mistakes = [one for one, answer in answered if answer == "wrong"]
        _write(rules, profile_file, known, mistakes, golden_file)
        found_in = {one.argument for one, _ in answered}
        complain(f"{name}: nothing was found in it" for name in answers if name not in found_in)
        complain([f"{counted(len(rules), 'rule')}, {counted(len(mistakes), 'mistake')}"])
        end(files.mistakes, 0)


def _write(
    rules: Iterable[RankedFinding],
    profile_file: str,
    known: Profile,
    mistakes: Sequence[RankedFinding],
    golden_file: str | None,
) -> None:
    if mistakes and golden_file is None:
        raise click.UsageError("--goldens FILE: name the golden set that forbids what is wrong")
    if rules:
        write_text(profile_file, _profile_text(reduce(_settled, rules, known)))
    if mistakes and golden_file is not None:
        _forbid(golden_file, mistakes)


def _known(file: str) -> Profile:
    return load_profile(file) if Path(file).exists() else Profile()


def _profile_text(found: Profile) -> str:
    return yaml_text(profile_document(found), header=_HEADER)


def _answered(found: Iterable[RankedFinding], answers: Mapping[str, str]) -> Iterable[tuple[RankedFinding, str]]:
    """Yield the findings that were answered, by name or by a key."""
    for one in found:
        if answers:
            answer = answers.get(one.argument, "")
        else:
            shown = [
                f"  {place.words}: {printable(place.finding.words(include_values=True))}" for place in one.places[:5]
            ]
            complain([f"{one.name} in {one.share}", *shown, "[e] expected   [w] wrong   [s] skip   [q] end"])
            key = ""
            while key not in _KEYS:
                try:
                    key = click.getchar()
                except (EOFError, OSError):  # nobody is there to answer
                    key = "q"
            answer = _KEYS[key]
        if answer == "end":
            return
        if answer:
            yield one, answer


def _settled(known: Profile, one: RankedFinding) -> Profile:
    """Return the profile that expects a finding: a value that the agent makes, or a family that is not judged."""
    if one.metric == GROUNDING:
        return replace(known, generated=known.generated | {one.argument})
    place = one.places[0]
    path = "".join("/*" if step.isdecimal() else f"/{step}" for step in steps_of(place.finding.path))
    family = {NOT_PASSED: Family.PASSED, USUAL_ORIGIN: Family.ORIGIN}.get(one.kind) or Family(one.kind)
    check = Check(one.agent, place.call.call.name, path, family)
    return replace(known, off=known.off | {check})


def _forbid(file: str, mistakes: Iterable[RankedFinding]) -> None:
    """Add what is wrong to a golden set, as calls that no session may make."""
    calls: list[dict[str, Any]] = []
    for place in (place for one in mistakes for place in one.places):
        call = place.call.call
        wrong = {"name": call.name, **_arguments(place.finding.path, call.arguments or {}), "forbidden": True}
        calls += [] if wrong in calls else [wrong]
    if Path(file).exists():
        write_text(file, GoldenFile(file).forbid(calls))
        return
    everywhere: list[dict[str, Any]] = [{"session_pattern": "*", "calls": []}]
    write_text(
        file,
        golden_set_text(
            file,
            {"golden_set": Path(file).stem, "description": _WRONG_SET, "forbidden": calls, "goldens": everywhere},
        ),
    )


def _arguments(path: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the argument that is wrong, as a forbidden call names it; nothing for a call as a whole."""
    if not path:
        return {}
    name = steps_of(path)[0]
    return {"args": {name: escape_literal(arguments[name]) if name in arguments else {"$absent": True}}}
