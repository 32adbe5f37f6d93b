"""Documentation pages as what a reader copies from them: fenced blocks, command lines and links."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import click

_FENCE = re.compile(r"^( *)(`{3,})([\w-]*)\s*$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(r"#\s*file:\s*(\S+)\s*$")
_CONTINUED = re.compile(r"\\\n\s*")
_SHELL = {"|", "||", "&&", ";", ">", ">>", "<", "2>", "#"}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its lines without the fence, and the line number of the first, from 1."""

    language: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The file it is meant to be, if its first line says so."""
        named = _FILE.match(self.text.partition("\n")[0])
        return named.group(1) if named else None


def blocks(page: str) -> list[Block]:
    """Every fenced block of a page."""
    found: list[Block] = []
    opened: tuple[str, str, str, int] | None = None
    inside: list[str] = []
    for number, line in enumerate(page.splitlines(), start=1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence:
                opened, inside = (*fence.groups(), number + 1), []
        elif fence and fence.group(2) == opened[1] and not fence.group(3):
            indent, _, language, start = opened
            text = "".join(f"{content.removeprefix(indent)}\n" for content in inside)
            found.append(Block(language, text, start))
            opened = None
        else:
            inside.append(line)
    if opened is not None:
        raise ValueError(f"line {opened[3] - 1}: a fenced block is never closed")
    return found


def as_module(page: str) -> str:
    """The Python blocks of a page that are no files, as one module: each statement on the line it has in the page."""
    lines = [""] * (page.count("\n") + 1)
    for block in blocks(page):
        if block.language == "python" and block.file is None:
            for offset, line in enumerate(block.text.splitlines()):
                lines[block.line - 1 + offset] = line
    return "\n".join(lines) + "\n"


def command_lines(page: str) -> list[str]:
    """What a reader is told to type: lines after `$ ` of a console block, every line of a shell block."""
    typed: list[str] = []
    for block in blocks(page):
        joined = _CONTINUED.sub("", block.text).splitlines()
        if block.language == "console":
            typed += [line[2:] for line in joined if line.startswith("$ ")]
        elif block.language in {"sh", "bash", "shell"}:
            typed += [line for line in joined if line.strip() and not line.lstrip().startswith("#")]
    return typed


def wrong_commands(page: str, command: click.Command, targets: set[str]) -> list[str]:
    """Commands of goldspan and make that are not there, by the click command and the Makefile's targets."""
    wrong: list[str] = []
    for line in command_lines(page):
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            named = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
            wrong += [f"{line}: no target {word}" for word in named if word not in targets]
        elif words[:1] == ["goldspan"]:
            wrong += [f"{line}: {fault}" for fault in _unknown(words[1:], command)]
    return wrong


def _unknown(words: list[str], command: click.Command) -> list[str]:
    wrong: list[str] = []
    for position, word in enumerate(words):
        if word in _SHELL:
            break
        if isinstance(command, click.Group) and not word.startswith("-"):
            context = click.Context(command)
            found = command.get_command(context, word)
            if found is None:
                return [*wrong, f"no command {word}, there are {', '.join(sorted(command.list_commands(context)))}"]
            command = found
        elif word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
            if name not in known | {"--help"}:
                wrong.append(f"no option {name} (word {position + 1})")
    return wrong


def dead_links(page: str, folder: Path) -> list[str]:
    """Links to files that do not exist, seen from the page's folder."""
    text = re.sub(r"^ *```.*?^ *```", "", page, flags=re.DOTALL | re.MULTILINE)
    targets = (hit.group(1).partition("#")[0] for hit in _LINK.finditer(text) if "://" not in hit.group(1))
    return [target for target in targets if target and not (folder / target).exists()]
