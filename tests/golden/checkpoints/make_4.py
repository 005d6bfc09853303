"""Made the golden checkpoints of format 4 whose segments are of several pieces, as large ones are written.

DO NOT RUN THIS AGAIN, for the reason that `make.py` gives, which also says what is in each folder. They lie in
`format-4`. A piece is of 32 MB; here it is of some rows. How they were made:
`python tests/golden/checkpoints/make_4.py [NAME ..]`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from make import ONE_KEY, TWO_KEYS, Golden
from make_3 import make

from judged_jobs import JudgedJob, draw_streams

FORMAT = 4
PIECE_BYTES = 300


PROGRAM = f"""
import sys
from watersmeet.cli.main import main
from watersmeet.kernel import pieces
pieces.PIECE_BYTES = {PIECE_BYTES}
sys.exit(main(["run", "job.toml", "--json"]))
"""


def in_pieces(fault: str | None = None) -> Callable[[JudgedJob], None]:
    """To the end of what there was, or killed."""

    def make(job: JudgedJob) -> None:
        words = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(words, cwd=job.home, env=job.environment(fault), capture_output=True, text=True)
        assert done.returncode == (0 if fault is None else -signal.SIGKILL), done.stderr
        if fault is not None:
            job.marker(fault).unlink()

    return make


GOLDENS = {
    "local-pieces": Golden(
        "two stages, windows and late rows; five of eight batches read, segments of several pieces",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 8, 20, 10, seed=41, late=2),
        5,
        in_pieces(),
        {"run": "slots = 1"},
        (("run.slots=3",), ("run.memory=4000",)),
    ),
    "local-pieces-spilled": Golden(
        "one join within a budget, killed after its last delivery: generations of several pieces spilled, results owed",
        ONE_KEY,
        draw_streams(ONE_KEY, 12, 20, 12, seed=42, late=2),
        9,
        in_pieces("after-delivery:9"),
        {"run": 'memory = "6000"\nslots = 1', "adapt": 'plan = "mjoin"\nmerge = "off"'},
        (("adapt.merge=state-manager",), ("run.slots=2",)),
    ),
}


if __name__ == "__main__":
    for name in sys.argv[1:] or GOLDENS:
        make(name, GOLDENS[name], FORMAT)
