"""Reports as files: each kind is made by a function of its own module, which is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from goldspan.collector_processor.atomic_files import write_text
from goldspan.scoring.json_values import json_text

if TYPE_CHECKING:
    from goldspan.collector_processor.report.model import Report
    from goldspan.scoring.run import ScoringResult

_RENDERERS = {
    "junit": "junit:junit_report",
    "html": "html:html_report",
    "markdown": "markdown:markdown_report",
    "github": "annotations:github_report",
    "gitlab": "annotations:gitlab_report",
}
"""The kinds of report that are made of the `Report`, each with its module and function."""
REPORT_KINDS = (*_RENDERERS, "json")


def write_report(kind: str, file: str, report: Report, result: ScoringResult) -> None:
    """Write a report of one of `REPORT_KINDS`. Raises FileError if the file cannot be written."""
    if kind == "json":
        text = json_text(result.to_json()) + "\n"
    else:
        module, _, function = _RENDERERS[kind].partition(":")
        text = getattr(import_module(f"{__package__}.{module}"), function)(report)
    write_text(file, text)
