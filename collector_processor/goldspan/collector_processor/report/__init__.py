"""What the command line shows: one model of a report, and renderers for the terminal, HTML, Markdown and JUnit."""

from __future__ import annotations
