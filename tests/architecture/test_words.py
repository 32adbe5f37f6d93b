"""What must not stand in a tracked file: somebody's machine, hosts the project does not own, how it was made."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = {".gif", ".gz", ".ico", ".jpg", ".pb", ".png", ".svg", ".zst"}
PUBLIC_HOSTS = {
    "127.0.0.1",
    "0.0.0.0",
    "arize-ai.github.io",
    "collector",
    "github.com",
    "google.github.io",
    "json-schema.org",
    "localhost",
    "opentelemetry.io",
    "www.apache.org",
    "www.w3.org",
}
RESERVED = re.compile(r"(^|\.)(example(\.(com|org|net))?|test|invalid|localhost)$")

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


def faults(text: str, *, recording: bool = False) -> list[str]:
    """What is wrong with a file's text. A recording may name the hosts its framework called."""
    found = [f"{what}: {hit.group()}" for what, pattern in FORBIDDEN.items() for hit in pattern.finditer(text)]
    if not recording:
        hosts = {hit.group(1).lower().rstrip(".") for hit in URL.finditer(text)}
        found += [f"a host: {host}" for host in sorted(hosts - PUBLIC_HOSTS) if not RESERVED.search(host)]
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
    ],
)
def test_a_fault_is_found(text: str) -> None:
    assert faults(text)


@pytest.mark.parametrize(
    "text",
    ["ADK issue 5643", "http://localhost:4318/v1/traces", "https://otel.example.com", "a shared core", "/homepage"],
)
def test_what_is_allowed_is_not(text: str) -> None:
    assert faults(text) == []
