"""`goldspan profile`: what is normal for an agent's arguments."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import click

from goldspan.collector_processor.cli.input_output import (
    TRACES,
    NamedTraces,
    complain,
    end,
    file_errors,
    open_traces,
    read_with_progress,
)
from goldspan.collector_processor.golden_tools.writing import yaml_text
from goldspan.collector_processor.replay.inspection import inspect_spans
from goldspan.collector_processor.whole_files import write_text
from goldspan.mappers.dialect_registry import DialectRegistry
from goldspan.scoring.metrics.argument_profile import FEWEST_SESSIONS, Profile, learn, load_profile, profile_document
from goldspan.scoring.tool_definitions import load_tools
from goldspan.scoring.wording import counted

_HEADER = (
    "What is normal for an agent's arguments: in how many sessions what was seen. It holds no values.",
    "Review it like a golden set; `off: [shape]` at a place leaves a family out.",
)


@click.group()
def profile() -> None:
    """Learn what is normal for an agent's arguments, without goldens."""


@profile.command(name="learn")
@TRACES
@click.option("-o", "--output", required=True, metavar="FILE", help="Write the profile to this YAML file.")
@click.option(
    "--merge", "others", multiple=True, metavar="FILE", help="Add this profile, of other sessions; repeatable."
)
@click.option("--tools", "tools_file", metavar="FILE", help="The definitions of the agent's tools as JSON.")
def learn_profile(traces: NamedTraces, *, output: str, others: tuple[str, ...], tools_file: str | None) -> None:
    """Learn from TRACES, right and wrong ones alike: what few sessions do is what deviates.

    Score by it with `goldspan score TRACES --metric tool_parameter_profile:FILE`, or so behind any other door.
    """
    with file_errors(), open_traces(traces) as files:
        tools = None if tools_file is None else load_tools(tools_file)
        merged = [load_profile(name) for name in others]
        registry = DialectRegistry(definitions=True, on_problem=files.problems.append)
        with read_with_progress(files) as views:
            sessions = inspect_spans(views, registry, files.problems, content=True).sessions
        found = reduce(Profile.plus, merged, learn(sessions, tools))
        write_text(output, yaml_text(profile_document(found), header=_HEADER))
        places = len({check[:2] for check in found.counts})
        complain(
            [f"{Path(output).name}: {counted(found.sessions, 'session')}, {counted(places, 'place')} of arguments"]
        )
        if found.sessions < FEWEST_SESSIONS:
            complain([f"a profile of fewer than {FEWEST_SESSIONS} sessions judges nothing: learn from more"])
        end(files.mistakes, 0)
