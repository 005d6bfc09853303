"""A filesystem of a few kilobytes, to be full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Callable[[str], None]]:
    """`folder` on a filesystem of its own; yields a function that gives it another size."""
    folder.mkdir(parents=True, exist_ok=True)

    def resize(size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)

    try:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip("mounting a small filesystem needs root")
        yield resize
    finally:
        if os.path.ismount(folder):
            _unmount(folder)


def _unmount(folder: Path) -> None:
    """While an error is on its way up, what it has interrupted may have files open; the disk goes with the last."""
    busy = subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode
    if busy:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def used_kilobytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return (found.f_blocks - found.f_bfree) * found.f_frsize // 1024
