"""What the pages say works: their Python runs, their golden sets load, their commands and links exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from goldspan.scoring import load_goldens
from goldspan.scoring.errors import GoldenFileError
from rigs.markdown_pages import as_module, blocks, dead_links, wrong_commands
from rigs.otlp_receiver import otlp_receiver
from rigs.repository import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = ("scoring", "mappers", "collector_processor", "tests", "benchmarks", "docs", "examples")
NO_TESTS_COLLECTED = 5


@pytest.fixture(params=PAGES, ids=lambda path: path.name)
def page(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture(scope="module")
def receiver() -> Iterator[str]:
    """Somewhere for the examples' OTLP to go."""
    with otlp_receiver() as receiver:
        yield receiver.endpoint


def write_files(page: str, folder: Path) -> None:
    for block in blocks(page):
        if block.file is not None:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")


def run_python(page: str, folder: Path, endpoint: str) -> subprocess.CompletedProcess[str]:
    """Run the page's Python in a process of its own, in a folder that holds its files and the examples."""
    write_files(page, folder)
    (folder / "examples").symlink_to(ROOT / "examples")
    module = folder / "test_page.py"
    module.write_text(as_module(page), "utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(module)],
        cwd=folder,
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_python_runs(page: Path, receiver: str, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    if as_module(text).strip():
        ran = run_python(text, tmp_path, receiver)
        assert ran.returncode in {0, NO_TESTS_COLLECTED}, f"{page.name}\n{ran.stdout}\n{ran.stderr}"


def load_golden_sets(page: str, folder: Path) -> int:
    loaded = 0
    for block in blocks(page):
        if block.language == "yaml" and re.search(r"^golden_set:", block.text, re.MULTILINE):
            path = folder / f"line-{block.line}.yaml"
            path.write_text(block.text, "utf-8")
            load_goldens(path)
            loaded += 1
    return loaded


def test_the_golden_sets_load(page: Path, tmp_path: Path) -> None:
    load_golden_sets(page.read_text("utf-8"), tmp_path)


def test_the_commands_exist(page: Path) -> None:
    assert wrong_commands(page.read_text("utf-8"), command(), make_targets()) == []


def test_the_links_lead_somewhere(page: Path) -> None:
    assert dead_links(page.read_text("utf-8"), page.parent) == []


def missing_paths(page: str) -> list[str]:
    """Return the Python files and folders that a page names and the repository lacks; the end of a path is enough."""
    named = set(re.findall(r"`((?:[\w.-]+/)+|(?:[\w.-]+/)*\w+\.py)`", page))
    return sorted(path for path in named if not any(known.endswith(f"/{path}") for known in repository_paths()))


@cache
def repository_paths() -> frozenset[str]:
    files = [path.relative_to(ROOT) for top in SOURCES for path in (ROOT / top).rglob("*.py")]
    return frozenset({f"/{path}" for path in files} | {f"/{folder}/" for path in files for folder in path.parents})


def test_the_files_that_the_architecture_names_exist() -> None:
    assert missing_paths((ROOT / "docs/architecture.md").read_text("utf-8")) == []


def test_a_file_that_is_gone_is_found() -> None:
    assert missing_paths("`docs/test_pages.py` `goldspan/scoring/` `no/test_pages.py` `gone/` `a.b`") == [
        "gone/",
        "no/test_pages.py",
    ]


def test_the_pages_show_what_is_tested(tmp_path: Path) -> None:
    texts = [path.read_text("utf-8") for path in PAGES]
    assert any(as_module(text).strip() for text in texts)
    assert any(load_golden_sets(text, tmp_path) for text in texts)


def command():
    from goldspan.collector_processor.cli import main  # noqa: PLC0415 - the other tests do not need it

    return main


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


BROKEN = """
A page.

```python
x = {body}
```

```python
def test_x():
    assert x == 1
```
"""


@pytest.mark.parametrize(("body", "runs"), [("1", True), ("2", False), ("missing", False), ("(", False)])
def test_broken_python_is_found(body: str, runs: bool, receiver: str, tmp_path: Path) -> None:
    ran = run_python(BROKEN.format(body=body), tmp_path, receiver)
    assert (ran.returncode == 0) is runs, ran.stdout
    if body == "missing":
        assert "test_page.py:5" in ran.stdout


def test_files_of_a_page_are_there_for_its_python(receiver: str, tmp_path: Path) -> None:
    text = (
        "```yaml\n# file: a.yaml\nkey: 1\n```\n\n```python\nassert open('a.yaml').read().endswith('key: 1\\n')\n```\n"
    )
    assert run_python(text, tmp_path, receiver).returncode == NO_TESTS_COLLECTED


def test_a_broken_golden_set_is_found(tmp_path: Path) -> None:
    text = "```yaml\ngolden_set: x\ngoldens:\n  - session: s\n    turn: []\n```\n"
    with pytest.raises(GoldenFileError):
        load_golden_sets(text, tmp_path)


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("goldspan score traces.jsonl --goldens goldens.yaml | head", True),
        ("goldspan score a b \\\n    --goldens=g.yaml --format json", True),
        ("make test ARGS=-x", True),
        ("goldspan scores traces.jsonl", False),
        ("goldspan score traces.jsonl --golden goldens.yaml", False),
        ("make tests", False),
    ],
)
@pytest.mark.parametrize("fence", ["sh", "console"])
def test_a_wrong_command_is_found(line: str, right: bool, fence: str) -> None:
    text = f"```{fence}\n{'$ ' if fence == 'console' else ''}{line}\n```\n"
    assert (wrong_commands(text, command(), make_targets()) == []) is right


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("", "utf-8")
    text = "[a](there.md#part) [b](gone.md) [c](#here) [d](https://example.com/x)\n"
    assert dead_links(text, tmp_path) == ["gone.md"]


PUBLISHED = re.compile(r"(?:pip3? install|uvx|pipx run|uv add|npm i\w*) ['\"]?goldspan\b(?!\[\w+\] @)|uses: goldspan/")
"""What works only once a release has published goldspan. An extra of the installed one, in docs/install.md, does."""


def promised(page: str) -> list[str]:
    """Return the lines that need goldspan to be published somewhere."""
    return [line for line in page.splitlines() if PUBLISHED.search(line)]


def test_no_page_promises_what_is_not_published(page: Path) -> None:
    assert [line for line in promised(page.read_text("utf-8")) if "'goldspan[sinks]'" not in line] == []


@pytest.mark.parametrize(
    ("line", "promises"),
    [
        ("pip install goldspan", True),
        ("- run: pip install 'goldspan[gateway]'", True),
        ("uvx goldspan score traces/", True),
        ("- uses: goldspan/goldspan@v1", True),
        ("pip install '.[all]'", False),
        ("uvx --from . goldspan score", False),
        ('pip install "goldspan[all] @ git+$GOLDSPAN_REPOSITORY"', False),
        ("docker run -v ./a:/b goldspan stream", False),
    ],
)
def test_a_promise_is_found(line: str, promises: bool) -> None:
    assert bool(promised(line)) is promises
