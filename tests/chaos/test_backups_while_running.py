"""Backups of a query that runs, spills and deletes files, in a loop beside it; it is killed, and goes on from one.

Beside it, `verify` looks through the same checkpoint, which is sound all the time. `WATERSMEET_BACKUP_RUNS` is how many
runs are killed.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from judged_jobs import SECOND, JoinCase, JudgedJob, difference, draw_streams, duckdb_answer, late_rows, write_streams
from watersmeet.state.backup import make
from watersmeet.state.backup.copying import copy_pieces
from watersmeet.state.backup.make import back_up
from watersmeet.state.backup.restore import choose, delivered_since, restore, set_aside
from watersmeet.state.backup.store import BackupStore
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.verify.walk import verify

RUNS = int(os.environ.get("WATERSMEET_BACKUP_RUNS", "3"))
CASE = JoinCase(
    {"A": ("k",), "B": ("k", "m"), "C": ("m",)}, "A.k = B.k AND B.m = C.m", 3 * SECOND, lateness_us=SECOND // 2
)
BATCHES = 40
STREAMS = draw_streams(CASE, BATCHES, 10, 8, seed=3, late=2)
EXPECTED = duckdb_answer(CASE, STREAMS)
DEATHS = ("after-commit", "before-delivery", "in-delivery", "after-delivery", "before-snapshot", "after-segment")


def slowly(*args: Any) -> Any:
    """As to a store far away: the run commits several times while one file is copied."""
    time.sleep(0.05)
    return copy_pieces(*args)


@pytest.mark.timeout(120 * RUNS)
def test_a_run_that_was_killed_goes_on_from_any_backup(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(RUNS):
        draw = random.Random(seed)
        home = tmp_path / str(seed)
        job = JudgedJob.write(home, CASE, run='memory = "6000"\ndurability = "process"', adapt='plan = "((A B) C)"')
        write_streams(CASE, STREAMS, home / "in")
        folders, store = CheckpointFolders(str(home / "ck")), BackupStore(str(home / "backups"))
        fault = f"{draw.choice(DEATHS)}:{draw.randrange(8, 60)}"
        settings = ("sink.deliver_every=300 milliseconds",) if seed % 3 == 2 else ()  # results wait, and are gathered
        ends: list[int] = []
        run = threading.Thread(target=lambda: ends.append(job.start(*settings, fault=fault).code))  # noqa: B023 - joined below
        run.start()
        while run.is_alive():
            with pytest.MonkeyPatch.context() as patch:
                if seed % 2:
                    patch.setattr(make, "copy_pieces", slowly)
                made = back_up(folders, store, "now", keep=4)
            report = verify(folders)
            if made is not None and report is not None:
                assert report.sound, report.to_json()
                counts["backups"] += 1
                counts["turns"] += made.turns
                counts["most turns"] = max(counts["most turns"], made.turns)
                counts["collected while verified"] += report.collected
                counts["verified"] += 1
        run.join()
        counts["killed" if ends[0] else "ran to the end"] += 1
        index = choose(store, draw.choice([index.number for index in store.whole()]))
        shutil.rmtree(home / "ck")
        restore(store, index, folders)
        restored = verify(folders)
        assert restored is not None and restored.sound and restored.version == index.version
        later = delivered_since(index, folders.home)
        counts["files set aside"] += sum(len(entry.names) for entry in later)
        set_aside(later, index)
        assert job.answer() <= EXPECTED
        job.finish(*settings)
        assert not difference(job.answer(), EXPECTED), (seed, fault, index.version)
        assert job.late() == late_rows(CASE, STREAMS)
        counts["rows checked"] += EXPECTED.total()
    print(f"\n{RUNS} runs: {dict(counts)}")
    assert counts["backups"] > RUNS
