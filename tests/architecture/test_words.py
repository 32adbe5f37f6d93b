"""What must not stand in a tracked file: somebody's machine or network, how it was made."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from rigs.repository import ROOT

BINARY = {".gif", ".gz", ".ico", ".jpg", ".pb", ".png", ".svg", ".zst"}
SPOKEN_OF = {"prometheus", "collector", "localhost", "otel-collector", "phoenix"}
"""Hosts of one word that an example may use."""
ADDRESS = re.compile(r"[0-9.]+")
ANYBODYS_ADDRESS = re.compile(r"127\.|0\.0\.0\.0$|192\.0\.2\.")
INSIDE = re.compile(r"(^|\.)(corp|home|internal|intranet|lan|local)(\.|$)")

# The character classes keep this file from finding itself.
FORBIDDEN = {
    "a home directory": re.compile(r"/(home|Users)/[a-z]\w*|/roo[t]/|[A-Z]:\\Users"),
    "a working directory": re.compile(r"/wor[k]/|/tm[p]/bash|\.\./share[d]|\bshare[d]/"),
    "an unpublished document": re.compile(r"DESIG[N]\.md|\bfact[s]/[a-z-]+\.md"),
    "an issue number": re.compile(r"\b[Ii]ssue[s]? #?(?!5643)\d+\b"),
    "a package registry": re.compile(r"pypi\.or[g]|pythonhosted\.or[g]|npmjs\.co[m]"),
    "a machine's identity": re.compile(
        r'"(host\.nam[e]|host\.i[d]|process\.owne[r]|process\.executable\.pat[h])",'
        r'\s*"value": ?\{\s*"stringValue": ?"(?!host\.example\.com"|0+")'
    ),
}
URL = re.compile(r"https?://([A-Za-z0-9.-]+)")


def tracked() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("not a git work tree: nothing tells tracked files from others")
    paths = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and path.suffix not in BINARY and path.name != "LICENSE"]


def is_somebodys(host: str) -> bool:
    """Whether a host belongs to somebody's network: the public documentation of others may be cited."""
    if ADDRESS.fullmatch(host):
        return not ANYBODYS_ADDRESS.match(host)
    one_word = "." not in host and len(host) > 1  # a single letter is nobody's
    return (one_word and host not in SPOKEN_OF) or bool(INSIDE.search(host))


def faults(text: str, *, recording: bool = False) -> list[str]:
    """What is wrong with a file's text. A recording may name the hosts its framework called."""
    found = [f"{what}: {hit.group()}" for what, pattern in FORBIDDEN.items() for hit in pattern.finditer(text)]
    if not recording:
        hosts = sorted({hit.group(1).lower().rstrip(".") for hit in URL.finditer(text)})
        found += [f"somebody's host: {host}" for host in hosts if is_somebodys(host)]
    return found


def test_tracked_files_name_no_machine_host_or_history() -> None:
    found: dict[str, list[str]] = {}
    for path in tracked():
        recording = path.name.endswith((".otlp.json", ".otlp.jsonl", ".logs.json"))
        if wrong := faults(path.read_text("utf-8"), recording=recording):
            found[str(path.relative_to(ROOT))] = wrong[:5]
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "see /home" + "/ann/goldspan",
        "cd /wor" + "k/main",
        "as DESIGN" + ".md says",
        "fixes issue" + " #12",
        "https:" + "//files.pythonhosted" + ".org/x",
        '{"key": "host' + '.name", "value": {"stringValue": "build-7"}}',
        "POST https:" + "//intra.corp.net/v1",
        "http:" + "//build-7:4318",
        "http:" + "//10.2.3.4/",
    ],
)
def test_a_fault_is_found(text: str) -> None:
    assert faults(text)


@pytest.mark.parametrize(
    "text",
    [
        "ADK issue 5643",
        "http://localhost:4318/v1/traces",
        "https://otel.example.com",
        "https://opentelemetry.io/docs",
        "a shared core",
        "/homepage",
    ],
)
def test_what_is_allowed_is_not(text: str) -> None:
    assert faults(text) == []
