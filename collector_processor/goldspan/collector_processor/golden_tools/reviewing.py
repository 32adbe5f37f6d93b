"""What a person decides about an inferred golden set: questions, answers, and a table for a pull request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from goldspan.collector_processor.golden_tools.inference.inferred_document import RuleQuestion, questions_of
from goldspan.collector_processor.golden_tools.inference.inferred_set import InferredSet


class Answer(StrEnum):
    """What a person says to a question, by the key."""

    YES = "y"
    NO = "n"
    """The values that were seen are expected, or the tool's calls."""
    IGNORE = "i"
    """Whatever is passed is right."""
    REST = "a"
    """Yes to this question and all that are left."""


class Answered(NamedTuple):
    """A question and its answer."""

    question: RuleQuestion
    answer: Answer


def review(
    inferred: InferredSet, ask: Callable[[int, int, RuleQuestion], Answer]
) -> tuple[InferredSet, Sequence[Answered]]:
    """Ask each question, the most valuable first, and return the set as the answers have it.

    `ask` takes the number of the question, how many there are, and the question.
    """
    questions = questions_of(inferred)
    answered: list[Answered] = []
    rest = False
    for number, question in enumerate(questions, 1):
        answer = Answer.YES if rest else ask(number, len(questions), question)
        rest = rest or answer is Answer.REST
        answered.append(Answered(question, Answer.YES if answer is Answer.REST else answer))
    return with_answers(inferred, answered), answered


def with_answers(inferred: InferredSet, answered: Iterable[Answered]) -> InferredSet:
    """Return the set as these answers have it."""
    rules, tools = dict(inferred.rules), dict(inferred.tools)
    for question, answer in answered:
        if answer is Answer.YES:
            continue
        for argument in question.arguments:
            form, optional = ("exact", False) if answer is Answer.NO else ("ignored", rules[argument].optional)
            rules[argument] = replace(rules[argument], form=form, optional=optional)
        if question.tool:
            tools[question.tool] = replace(tools[question.tool], expected=answer is Answer.NO, optional=False)
    return replace(inferred, rules=rules, tools=tools)


_WORDS = {Answer.YES: "yes", Answer.NO: "no: as seen", Answer.IGNORE: "ignored"}


def markdown_of(answered: Iterable[Answered]) -> Iterator[str]:
    """Yield the lines of a table of rules, their evidence and what a person said, for a pull request."""
    yield "| rule | evidence | confirmed |"
    yield "|---|---|---|"
    for question, answer in answered:
        evidence = "<br>".join(map(_cell, question.evidence))
        yield f"| {_cell(question.text)} | {evidence} | {_WORDS[answer]} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
