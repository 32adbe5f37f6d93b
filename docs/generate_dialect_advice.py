"""Fill the tables of `why-nothing-is-scored.md` from the dialects' own advice.

python docs/generate_dialect_advice.py
"""

from __future__ import annotations

from pathlib import Path

from goldspan.collector_processor.replay.hints import advice_of
from goldspan.mappers.installed_dialects import built_in_dialects

PAGE = Path(__file__).with_name("why-nothing-is-scored.md")


def filled(text: str) -> str:
    """Return the page with its tables as the dialects are now."""
    for subject, head in (
        ("sessions", "what to do for a session id"),
        ("arguments", "what to switch on for arguments"),
    ):
        rows = [f"| dialect | {head} |", "|---|---|", *_rows(subject)]
        start, end = f"<!-- {subject}: made by docs/generate_dialect_advice.py -->", "<!-- end -->"
        before, _, rest = text.partition(start)
        table = "\n".join([start, "", *rows, "", end])
        text = before + table + rest.partition(end)[2]
    return text


def _rows(subject: str) -> list[str]:
    rows: list[str] = []
    for dialect in built_in_dialects():
        advice = advice_of(dialect)
        text = advice.session if subject == "sessions" else advice.arguments
        title = getattr(dialect, "title", "") or dialect.name
        rows.append(f"| {title} (`{dialect.name}`) | {text.replace('|', chr(92) + '|') or 'nothing to switch on'} |")
    return rows


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
