"""Builds a framework's environment from its script's header and runs the script. Without a name, lists them.

python tests/recordings/record.py [FRAMEWORK [RECORDING ...]]
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ENVIRONMENTS = FOLDER.parent.parent / ".venvs"
HEADER = re.compile(r"^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$", re.MULTILINE)
"""As the specification of inline script metadata has it (PEP 723)."""


def frameworks(folder: Path, prefix: str) -> dict[str, Path]:
    """Return the scripts that have a header, by name. They have a prefix lest one hide the package of its name."""
    return {path.stem.removeprefix(prefix).replace("_", "-"): path for path in sorted(folder.glob(f"{prefix}*.py"))}


def header(script: Path) -> dict[str, Any]:
    """Return what a script's header says."""
    found = HEADER.search(script.read_text("utf-8"))
    assert found, f"{script.name} has no header"
    return tomllib.loads("".join(line[2:] or "\n" for line in found["content"].splitlines(keepends=True)))


def dependencies(script: Path) -> list[str]:
    """Return the Python packages that a script's header pins."""
    pinned: list[str] = header(script)["dependencies"]
    return pinned


def node_packages(script: Path) -> dict[str, str]:
    """Return the packages of npm that it pins, with their versions."""
    pinned: dict[str, str] = header(script).get("tool", {}).get("record", {}).get("npm", {})
    return pinned


def program(script: Path) -> Path | None:
    """Return the folder of the program in another language that it records, if there is one."""
    folder: str | None = header(script).get("tool", {}).get("record", {}).get("program")
    return FOLDER / folder if folder else None


def build(source: Path, target: Path) -> None:
    """Build a program of Go or Java, by its go.mod or pom.xml, in a copy: Go adds to its files what it resolves."""
    print(f"building {source.name}", flush=True)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    go = [["go", "mod", "tidy"], ["go", "build", "-o", "built", "."]]
    maven = [["mvn", "--quiet", "--batch-mode", "package"]]
    for command in go if (source / "go.mod").exists() else maven:
        subprocess.run(command, cwd=target, check=True)


def environment(name: str, script: Path, *beside: str | Path) -> Path:
    """Return the Python of a script's own environment, made anew where the header has changed.

    `beside` is what pip installs there besides what the header pins.
    """
    packages, npm = dependencies(script), node_packages(script)
    folder = ENVIRONMENTS / name
    python, stamp = folder / "bin" / "python", folder / "packages"
    wanted = "\n".join([*packages, *(f"{one}@{version}" for one, version in npm.items())])
    source = program(script)
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        print(f"installing {', '.join(packages)}", flush=True)
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *beside, *packages], check=True)
        if npm:
            (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": npm}), "utf-8")
            command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run(command, cwd=folder, check=True)
        stamp.write_text(wanted, "utf-8")
    if source:
        build(source, folder / "program")
    return python


def main(arguments: list[str]) -> int:
    scripts = frameworks(FOLDER, "record_")
    if not arguments:
        for name, path in scripts.items():
            pinned = [*dependencies(path), *(f"{one}@{version}" for one, version in node_packages(path).items())]
            if source := program(path):
                pinned.append(f"{source.relative_to(FOLDER)} by its own pins")
            print(f"{name:18} {', '.join(pinned)}")
        return 0
    name, *recordings = arguments
    if name not in scripts:
        print(f"{name} is no framework that can be recorded; there are {', '.join(scripts)}", file=sys.stderr)
        return 2
    python = environment(f"record-{name}", scripts[name])
    return subprocess.run([python, scripts[name], *recordings], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
