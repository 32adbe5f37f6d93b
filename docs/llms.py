"""The site for language models: `llms.txt`, a list of its pages, and `llms-full.txt`, their text. See llmstxt.org."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
_COMMENT = re.compile(r"<!--.*?-->\n*|\A---\n.*?\n---\n+", re.DOTALL)


def listed(nav: Iterable[Any], section: str = "Start") -> Iterator[tuple[str, str]]:
    """Yield the section and the file of each page that a person wrote or a script filled, as `mkdocs.yml` has them."""
    for entry in nav:
        [(name, value)] = entry.items() if isinstance(entry, dict) else [(section, entry)]
        if isinstance(value, list):
            yield from listed(value, name)
        elif (ROOT / "docs" / value).exists():
            yield section, value


def pages(filled: Callable[[str], str] = str) -> list[tuple[str, str, str]]:
    """Return section, file and text of each page, with the parts that `filled` puts in."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    return [
        (section, name, _COMMENT.sub("", filled((ROOT / "docs" / name).read_text("utf-8"))))
        for section, name in listed(nav)
    ]


def index() -> str:
    """Return `llms.txt`: each page with its title and first sentence."""
    lines = [
        "# goldspan",
        "",
        "> Says whether an agent passed its tools the right arguments, from OpenTelemetry spans.",
    ]
    before = ""
    for section, name, text in pages():
        lines += [] if section == before else ["", f"## {section}", ""]
        before = section
        title, _, rest = text.removeprefix("# ").partition("\n")
        prose = re.sub(r"^```.*?^```$", "", rest, flags=re.DOTALL | re.MULTILINE)
        first = next((one for one in prose.split("\n\n") if one.strip() and one.strip()[0] not in "|#!-="), "")
        sentence = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split())).partition(". ")[0].rstrip(".:")
        lines.append(f"- [{title}]({name.removesuffix('.md')}.html): {sentence}.")
    return "\n".join(lines) + "\n"


def full(filled: Callable[[str], str]) -> str:
    """Return `llms-full.txt`: the text of each page, with what `filled` puts in, after the name of its file."""
    return "\n\n".join(f"<!-- {name} -->\n\n{text.strip()}" for _, name, text in pages(filled)) + "\n"
