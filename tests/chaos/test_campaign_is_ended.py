"""`python -m chaos` that gets SIGTERM or SIGINT leaves nothing mounted, and no process.

By SIGTERM it left its disk and its server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

# On S3, with runs in processes of their own.
COMMAND = ("--shape", "window", "--fault", "store-sigkill", "--seeds", "1000")


def started_by(process: int) -> dict[int, str]:
    """The processes that this one has started, and those that they have, with their command lines."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = (int(fields[1]), fields[0])
    family = [process]
    for member in family:
        family += [child for child, (parent, state) in parents.items() if parent == member and state != "Z"]
    found = {}
    for member in family[1:]:
        with suppress(OSError):
            found[member] = Path(f"/proc/{member}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def wait_until(true: Callable[[], bool], seconds: float = 100) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, f"not so after {seconds} seconds"
        time.sleep(0.05)


def is_there(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "chaos", *COMMAND, "--keep", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}"}
    # In the background of a shell it would not hear interrupts.
    words = ["env", "--default-signal=INT", *command]
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as campaign:
        try:
            wait_until(lambda: any("s3_process" in words for words in started_by(campaign.pid).values()))
            wait_until(lambda: any(path.stat().st_size for path in tmp_path.glob("journal-*")))
            started = started_by(campaign.pid)
            campaign.send_signal(number)
            _, said = campaign.communicate(timeout=100)
        finally:
            campaign.kill()
    assert said.splitlines()[-1] == f"ended by {number.name}, before it had come to a verdict"
    assert campaign.returncode == 128 + number
    assert not os.path.ismount(tmp_path / "disk")
    wait_until(lambda: not any(map(is_there, started)), 20)
