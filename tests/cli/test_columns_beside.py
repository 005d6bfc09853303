"""A restart whose streams have other columns beside those that the query reads: nothing else is other.

Each job runs over half of its input, and then over the rest with columns added, moved and dropped, in the job file and
in the files. It must deliver what the same job delivers whose columns stay as they are.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path

import pytest

from changed_columns import JOIN, QUERIES, READ, ChangedJob, draw_columns, late_values, run
from small_jobs import checked_main
from watersmeet.cli.main import main

Capture = pytest.CaptureFixture[str]
SETTINGS = {"": (), "a budget": ('run.memory="4000"',), "late rows": ('sink.late="late"',)}


@pytest.mark.parametrize(
    ("query", "setting"),
    [pair for pair in itertools.product(QUERIES, SETTINGS) if pair != ("a ring", "a budget")],  # a ring is not spilled
)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.campaign)])
def test_nothing_changes(tmp_path: Path, query: str, setting: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = tuple(each.replace('"late"', f'"{tmp_path}/LATE"') for each in SETTINGS[setting])
    draw = random.Random(f"{query} {setting} {seed}")
    stages = [{name: draw_columns(draw) for name in "AB"} for _ in range(4)]
    changed, same = (
        run(tmp_path / name, QUERIES[query], tuple(each.replace("LATE", name + "/late") for each in settings), columns)
        for name, columns in (("changed", stages), ("same", [{"A": READ, "B": READ}] * 4))
    )
    assert changed.answer() == same.answer()
    assert changed.answer()
    assert late_values(changed) == late_values(same)
    assert main(["state", "verify", str(changed.checkpoint)]) == 0


def test_the_identity_stays_as_it_was(tmp_path: Path, capsys: Capture) -> None:
    one = {"A": READ, "B": READ}
    other = {"A": {"x": "STRING", **dict(reversed(READ.items()))}, "B": {"ts": "BIGINT", "k": "BIGINT", "v": "BIGINT"}}
    job = run(tmp_path / "job", QUERIES["a join"], (), [one, other])
    capsys.readouterr()
    assert main(["state", "show", str(job.checkpoint), "--json"]) == 0
    assert '"x"' not in capsys.readouterr().out, "nobody reads it"
    assert main(["explain", str(job.path), "--against", str(job.checkpoint)]) == 0
    assert main(["state", "compact", str(job.checkpoint)]) == 0
    job.finish()


def test_another_type_of_a_column_that_is_read_is_refused(tmp_path: Path, capsys: Capture) -> None:
    job = run(tmp_path / "job", QUERIES["a join"], (), [{"A": READ, "B": READ}])
    job.declare({"A": {**READ, "v": "STRING"}, "B": READ})
    message = checked_main(job, capsys, 2, "the checkpoint belongs to another query")
    assert 'Column "v" of stream "A" was BIGINT, and this run has STRING.' in message


def test_a_column_that_is_not_read_may_get_another_type(tmp_path: Path) -> None:
    beside = [{"A": {**READ, "x": kind}, "B": READ} for kind in ("STRING", "DOUBLE")]
    job = ChangedJob(tmp_path, query=QUERIES["a join"])
    job.declare(beside[0])
    job.add(range(2), {"A": READ | {"x": "STRING"}, "B": READ})
    job.finish()
    job.declare(beside[1])
    job.finish()


STAR = f"SELECT A.*, B.v AS b {JOIN}"


def test_a_star_does_not_read_what_it_did_not_stand_for(tmp_path: Path, capsys: Capture) -> None:
    job = run(tmp_path / "job", STAR, (), [{"A": READ, "B": READ}])
    job.declare({"A": {**READ, "x": "STRING"}, "B": {**READ, "x": "STRING"}})
    message = checked_main(job, capsys, 2, "the checkpoint does not hold all that the query needs now")
    assert "it has no A.x" in message


def test_a_star_may_stand_for_less(tmp_path: Path) -> None:
    wide = {"A": {**READ, "x": "STRING"}, "B": READ}
    job = run(tmp_path / "job", STAR, (), [wide, {"A": READ, "B": READ}])
    assert Counter(map(len, job.answer())).keys() == {4, 5}
