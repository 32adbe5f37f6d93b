"""The built wheel: one top-level name, typed, and nothing of anybody else's is touched by installing it."""

from __future__ import annotations

import hashlib
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOMS = ("scoring", "mappers", "collector_processor")
GENERIC = ("collector_processor", "config", "mappers", "scoring", "tests")
"""Folders of the repository whose names must never reach anybody's environment."""


@pytest.fixture(scope="module")
def contents(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_has_one_top_level_name(contents: list[str]) -> None:
    tops = {name.partition("/")[0] for name in contents}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"goldspan"}
    assert len(tops) == 2


def test_every_room_is_in_it_and_typed(contents: list[str]) -> None:
    assert {f"goldspan/{room}/py.typed" for room in ROOMS} <= set(contents)
    assert {f"goldspan/{room}/__init__.py" for room in ROOMS} <= set(contents)
    assert {name.split("/")[1] for name in contents if name.startswith("goldspan/")} == set(ROOMS)


def test_the_namespace_stays_open(contents: list[str]) -> None:
    assert "goldspan/__init__.py" not in contents


def test_the_command_and_the_pytest_plugin_are_declared(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (entry for entry in archive.namelist() if entry.endswith(".dist-info/entry_points.txt"))
        declared = ConfigParser()
        declared.read_string(archive.read(name).decode())
    assert declared["console_scripts"]["goldspan"] == "goldspan.collector_processor.cli:main"
    assert declared["pytest11"]["goldspan"] == "goldspan.collector_processor.pytest_plugin.plugin"


def test_the_license_comes_with_it(contents: list[str]) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in contents)


def digests(site: Path) -> dict[str, str]:
    """Every file others installed, by content."""
    return {
        str(path.relative_to(site)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in site.rglob("*")
        if path.is_file() and not path.relative_to(site).parts[0].startswith("goldspan") and path.suffix != ".pyc"
    }


def stand_in(name: str, folder: Path) -> Path:
    """A wheel that holds one package of this name."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", f"OWNER = 'somebody else: {name}'\n")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


def test_installing_it_changes_no_package_named_like_a_room(wheel: Path, new_environment, tmp_path: Path) -> None:
    environment = new_environment()
    assert environment.install("--no-index", *(str(stand_in(name, tmp_path)) for name in GENERIC)).returncode == 0
    before = digests(environment.site)
    assert environment.install("--no-index", str(wheel)).returncode == 0
    assert digests(environment.site) == before
    for name in GENERIC:
        assert environment.run(f"import {name}; print({name}.OWNER)") == f"somebody else: {name}"
    assert environment.run("from importlib.metadata import version; print(version('goldspan'))") in wheel.name


@pytest.mark.parametrize("name", ["config", "mappers"])
def test_installing_it_changes_no_published_package(name: str, wheel: Path, new_environment) -> None:
    environment = new_environment()
    if environment.install("--quiet", name).returncode:
        pytest.skip(f"the package index here does not offer {name}; a stand-in of that name is tested above")
    before = digests(environment.site)
    assert before
    assert environment.install("--no-index", str(wheel)).returncode == 0
    assert (environment.site / "goldspan").is_dir()
    assert digests(environment.site) == before
