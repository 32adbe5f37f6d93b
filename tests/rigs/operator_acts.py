"""What operators, cleaners and volumes do to the folder of a gateway that runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

CAN_MOUNT = sys.platform == "linux" and hasattr(os, "geteuid") and os.geteuid() == 0


def mount(*arguments: str | Path) -> bool:
    """Call `mount` with these; whether that could be done."""
    return (
        CAN_MOUNT and not subprocess.run(["mount", *map(str, arguments)], check=False, capture_output=True).returncode
    )


def unmount(folder: Path) -> bool:
    return not subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True).returncode


def _deletes_the_files(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink(missing_ok=True)


def _renames(folder: Path) -> None:
    folder.rename(folder.with_name("other"))


def _replaces(folder: Path) -> None:
    _renames(folder)
    folder.mkdir()


def _deletes(pattern: str) -> Callable[[Path], None]:
    def delete(folder: Path) -> None:
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)

    return delete


def _mounts_over(folder: Path) -> None:
    mount("-t", "tmpfs", "-o", "size=64m", "none", folder)


def _makes_read_only(folder: Path) -> None:
    """For a while. What is open stays writable through a bind mount; nothing new can be made."""
    if mount("--bind", folder, folder):
        mount("-o", "remount,ro,bind", folder)
        threading.Timer(1.5, unmount, (folder,)).start()


ACTS: dict[str, Callable[[Path], None]] = {
    "folder deleted": shutil.rmtree,
    "files deleted": _deletes_the_files,
    "folder renamed": _renames,
    "folder replaced": _replaces,
    **{f"{pattern} deleted": _deletes(pattern) for pattern in ("bodies-*", "state.db", "state.db-wal", "state.db*")},
    **{f"{name} deleted": _deletes(name) for name in ("lock", "reserve")},
    "volume mounted over it": _mounts_over,
    "read-only": _makes_read_only,
}
