"""The end of the score page: totals, coverage, problems, what to do, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goldspan.collector_processor.replay.hints import HELP, WORDS
from goldspan.collector_processor.report.closing import advice_rows, problem_rows
from goldspan.collector_processor.report.layout import BAD, GOOD, STYLES, Page, counted, listed, score_text
from goldspan.collector_processor.report.metric_lines import metric_sums
from goldspan.collector_processor.report.totals import Judgement, Totals
from goldspan.collector_processor.report.values import printable
from goldspan.scoring.results import Label, Reason, RunResult

_LABEL = 12
_MOST_REGRESSIONS = 20


def summary(page: Page, result: RunResult, sums: Totals, judgement: Judgement, advice: Mapping[str, str]) -> None:
    """Add everything that follows the sessions; `advice` says per dialect what to switch on."""
    page.blank()
    for label, text in sum_rows(result, sums):
        page.paragraph(text, label=f"{label:<{_LABEL}}")
    problem_rows(page, result.problems, label=_LABEL)
    _regressions(page, judgement.regressions)
    advice_rows(page, advice_lines(result, sums, advice))
    page.blank()
    mark = BAD if judgement.exit_code else GOOD
    word, text = conclusion(sums, judgement)
    page.paragraph(text, label=f"{mark} {word}: ", style=STYLES[mark])


def sum_rows(result: RunResult, sums: Totals) -> list[tuple[str, str]]:
    """Return the sums in words: pairs of what they are of and what they are."""
    rows = [("sessions", _sessions(sums))]
    presets = dict.fromkeys(one.preset for one in result.sessions if one.preset is not None and one.golden is not None)
    if presets:
        rows.append(("scored by", f"another system's rules: preset {', '.join(presets)}"))
    if sums.calls_expected:
        rows.append(("calls", _calls(sums)))
    if metrics := metric_sums(result):
        rows.append(("metrics", metrics))
    if len(sums.wrong) > 1:
        rows.append(("mistakes", listed((name for name, times in sums.wrong for _ in range(times)), 4)))
    if sums.seen or sums.never_seen:
        rows.append(("goldens", _goldens(result, sums)))
    return rows


def conclusion(sums: Totals, judgement: Judgement) -> tuple[str, str]:
    """Return `passed` or `failed`, and the sentence that says why."""
    text = "; ".join(judgement.because) or ("nothing regressed" if judgement.regressions is not None else _passed(sums))
    return "failed" if judgement.exit_code else "passed", f"{text}."


def _regressions(page: Page, regressions: Sequence[str] | None) -> None:
    if not regressions:
        return
    page.blank()
    page.line(("regressed", "bold"))
    for regression in regressions[:_MOST_REGRESSIONS]:
        page.paragraph(regression, label="- ", indent=2)
    if len(regressions) > _MOST_REGRESSIONS:
        page.line(f"… and {len(regressions) - _MOST_REGRESSIONS:,} more", indent=2)


def _sessions(sums: Totals) -> str:
    parts = [
        f"{sums.sessions[label]:,} {word}"
        for label, word in ((Label.PASS, "passed"), (Label.FAIL, "failed"), (Label.NOT_EVALUATED, "not evaluated"))
        if sums.sessions.get(label)
    ]
    text = ", ".join(parts) or "none has a golden"
    if sums.mean is not None:
        text += f"; mean score {score_text(sums.mean)}"
    if sums.without_golden:
        text += f"; {len(sums.without_golden):,} without a golden ({listed(sums.without_golden, 3)})"
    return text


def _calls(sums: Totals) -> str:
    partly = sums.calls_evaluated - sums.calls_matched - sums.calls_missing
    expected = _some(
        (sums.calls_matched, "right"),
        (partly, "with wrong arguments"),
        (sums.calls_missing, "never made"),
        (sums.calls_expected - sums.calls_evaluated, "not evaluated"),
    )
    others = _some((sums.calls_unexpected, "not expected"), (sums.calls_rejected, "asked for but never executed"))
    return f"{sums.calls_expected:,} expected: {expected}" + (f"; beside these {others}" if others else "")


def _some(*counts: tuple[int, str]) -> str:
    return ", ".join(f"{count:,} {what}" for count, what in counts if count > 0)


def _goldens(result: RunResult, sums: Totals) -> str:
    total = len(sums.seen) + len(sums.never_seen)
    names = listed(printable(label) for label in result.golden_sets)
    text = f"{len(sums.seen):,} of {total:,} seen" + (f" ({names})" if names else "")
    return text + (f"; never seen: {listed(sums.never_seen, 8)}" if sums.never_seen else "")


def advice_lines(result: RunResult, sums: Totals, advice: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what to do: pairs of what was seen and what helps."""
    lines: list[tuple[str, str]] = []
    for reason, count in sums.unknown.items():
        if reason in HELP:
            texts = _dialect_advice(result, reason, advice) or [HELP[reason]]
            lines += [(f"{WORDS[reason]} ({count:,})", text) for text in texts]
    if sums.never_seen:
        lines.append((WORDS[Reason.GOLDEN_NEVER_SEEN], HELP[Reason.GOLDEN_NEVER_SEEN]))
    if not sums.seen and sums.without_golden:
        lines.append(("no session has a golden", HELP[Reason.GOLDEN_NEVER_SEEN]))
    return lines


def _dialect_advice(result: RunResult, reason: Reason, advice: Mapping[str, str]) -> list[str]:
    if reason is not Reason.ARGUMENTS_NOT_CAPTURED:
        return []
    dialects = dict.fromkeys(
        call.actual.dialect
        for session in result.sessions
        for turn in session.turns
        for call in turn.calls
        if call.actual is not None and call.verdict.reason is reason
    )
    return [f"{name}: {advice[name]}" for name in dialects if advice.get(name)]


def _passed(sums: Totals) -> str:
    passed = sums.sessions.get(Label.PASS, 0)
    if not passed:
        return "nothing failed, and nothing was evaluated either"
    return f"{counted(passed, 'session')} of {sum(sums.sessions.values()):,}"
