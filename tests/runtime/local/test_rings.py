"""Rings through the public API: what is refused, what is said, and what a limit stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from strategies import counted
from watersmeet.cli.main import main
from watersmeet.errors import JobError, LimitError

NEAR = "SELECT A.x AS a, B.x AS b FROM A [RANGE 10 SECONDS], B [RANGE 10 SECONDS] WHERE ABS(A.x - B.x) < 3"


def streams(rows: int = 60) -> dict[str, pa.Table]:
    random = np.random.default_rng(7)
    return {
        name: pa.table(
            {
                "x": pa.array(random.integers(0, 50, rows)),
                "ts": pa.array(np.sort(random.integers(0, 60_000_000, rows))),
            }
        )
        for name in "ABC"
    }


def test_a_budget_is_refused_with_what_would_limit_the_state() -> None:
    query = wm.sql(NEAR, **streams())
    with pytest.raises(JobError, match="memory budget cannot be kept") as caught:
        query.run(memory="1MB")
    assert "A with B" in str(caught.value.detail)
    assert "windows" in str(caught.value.hint)


def test_a_product_that_grows_is_stopped_by_a_limit_before_it_is_made() -> None:
    query = wm.sql(NEAR, **streams())
    whole, limited = query.run(batch_rows=10), query.run(batch_rows=10, max_candidates=10_000)
    assert counted(whole) == counted(limited)
    with pytest.raises(LimitError, match="max_candidates is 3") as caught:
        query.run(batch_rows=10, max_candidates=3)
    assert "nothing is lost" in str(caught.value.detail)
    with pytest.raises(JobError, match="max_candidates"):
        query.run(max_candidates=0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NEAR, ["J1 is a ring over A, B", "slices of 39.062 ms", "comparisons a second"]),
        ("SELECT A.x FROM A, B [RANGE 1 SECOND] WHERE A.x < B.x", ["warning: A in J1 has no window"]),
        ("SELECT A.x FROM A [RANGE 1 SECOND], B [RANGE 1 SECOND]", ["warning: J1 checks nothing"]),
        (f"{NEAR} AND A.x = B.x", []),
    ],
)
def test_explain_says_what_a_ring_is_and_what_makes_it_grow(text: str, said: list[str]) -> None:
    shown = wm.sql(text, **streams()).explain()
    for sentence in said:
        assert sentence in shown
    assert said or "ring" not in shown


def test_without_statistics_no_results_of_a_ring_are_kept() -> None:
    text = "SELECT A.x FROM A [RANGE 9 SECONDS], B [RANGE 9 SECONDS], C [RANGE 9 SECONDS] WHERE A.x < B.x AND B.x < C.x"
    assert "plan (A B C)" in wm.sql(text, **streams()).explain()
    rare: Any = {"A B": 1e-6, "B C": 0.5}
    assert "plan ((A B) C)" in wm.sql(text, selectivity=rare, **streams()).explain()


def test_a_job_with_a_ring_goes_on_after_a_restart(tmp_path: Path) -> None:
    tables = streams()
    for name in "AB":
        (tmp_path / name).mkdir()
        pq.write_table(tables[name].slice(0, 40), tmp_path / name / "0.parquet")
    job = tmp_path / "job.toml"
    job.write_text(
        f'query = "{NEAR}"\n'
        + "".join(
            f'[streams.{name}]\nformat = "parquet"\npath = "{tmp_path / name}"\nschema = "x BIGINT, ts BIGINT"\n'
            for name in "AB"
        )
        + f'[sink]\npath = "{tmp_path / "out"}"\n[run]\nruntime = "local"\ncheckpoint = "{tmp_path / "ck"}"\n'
        "[adapt]\nmax_candidates = 100000\n"
    )
    assert main(["run", str(job)]) == 0
    for name in "AB":
        pq.write_table(tables[name].slice(40), tmp_path / name / "1.parquet")
    assert main(["run", str(job)]) == 0
    wanted = wm.sql(NEAR, A=tables["A"], B=tables["B"]).run()
    assert counted(pq.read_table(tmp_path / "out")) == counted(wanted)
    assert main(["run", str(job), "--set", "run.memory=1MB"]) == 2
