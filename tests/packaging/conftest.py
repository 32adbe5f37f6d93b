"""The wheel, built once, and environments to install it into."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rigs.repository import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree. Needs hatchling, and no package index."""
    folder = tmp_path_factory.mktemp("wheel")
    building = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*building, "--wheel-dir", str(folder), str(ROOT)], check=True)
    (built,) = folder.glob("*.whl")
    return built


class Environment:
    """A virtual environment without pip of its own."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        self.site = Path(self.run("import sysconfig; print(sysconfig.get_path('purelib'))"))

    def run(self, code: str) -> str:
        return subprocess.run(
            [str(self.python), "-I", "-c", code], check=True, capture_output=True, text=True
        ).stdout.strip()

    def install(self, *what: str) -> subprocess.CompletedProcess[str]:
        installing = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--no-deps", *what]
        return subprocess.run(installing, check=False, capture_output=True, text=True)


@pytest.fixture
def new_environment(tmp_path: Path) -> Callable[[], Environment]:
    return lambda: Environment(tmp_path / "venv")
