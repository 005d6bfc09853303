"""The ways to spread a ring through the public API: what they keep and say, and how a run goes from one to another."""

from __future__ import annotations

import json
from datetime import timedelta
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
SECONDS = 100


def streams() -> dict[str, pa.Table]:
    """Ten rows a second of each stream."""
    random = np.random.default_rng(11)
    times = np.arange(SECONDS * 10) * 100_000
    return {
        name: pa.table({"x": pa.array(random.integers(0, 500, len(times))), "ts": pa.array(times)}) for name in "AB"
    }


def state_rows(lateness: str = "0 seconds", **options: Any) -> tuple[list[dict[str, int]], pa.Table]:
    """The rows that each input has in the state after each batch of five seconds, and the answer."""
    events: list[dict[str, Any]] = []
    query = wm.sql(NEAR, lateness=lateness, **streams())
    table = query.run(batch_rows=50, report=events.append, **options)
    states = [event["states"].values() for event in events if event["event"] == "batch"]
    return [{"+".join(state["inputs"]): state["rows"] for state in each} for each in states], table


@pytest.mark.parametrize(("segment", "copies"), [("10 seconds", 3.0), ("50 seconds", 1.4)])
def test_atr_keeps_a_master_once_and_copies_of_the_others(segment: str, copies: float) -> None:
    """copies = 1 + (w_s + w_m) / T, where nothing expires and where rows do."""
    *_, last = state_rows("1 day", ring="atr", ring_segment=segment)[0]
    assert last["A"] == SECONDS * 10
    assert last["B"] / last["A"] == pytest.approx(copies, rel=0.01)  # a row at a bound reaches one less
    kept, table = state_rows(ring="atr", ring_segment=segment, slots=3)
    assert counted(table) == counted(state_rows(slots=3)[1])
    totals = [sum(rows[name] for rows in kept[5:]) for name in "BA"]
    assert totals[0] / totals[1] == pytest.approx(copies, rel=0.1)


@pytest.mark.parametrize("copies", [2, 3])
def test_ctr_keeps_copies_and_visits_fewer_slots(copies: int) -> None:
    *_, last = state_rows("1 day", ring="ctr", ring_copies=copies, slots=6)[0]
    assert last == {"A": copies * SECONDS * 10, "B": copies * SECONDS * 10}


def test_segments_are_spilled_within_a_budget() -> None:
    _, table = state_rows(ring="atr", memory=3000, slots=2)
    assert counted(table) == counted(state_rows()[1])
    with pytest.raises(JobError, match="memory budget cannot be kept"):
        state_rows(ring="psp", memory=3000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ring": "psq"}, 'unknown ring "psq"'),
        ({"ring_copies": 2}, '"ring_copies" is set, and ring is "auto"'),
        ({"ring": "atr", "ring_segment": "10"}, "ring_segment"),
        ({"ring": "ctr", "ring_copies": 4, "slots": 2}, '"ring_copies" is 4, and a ring lies over 2 slots'),
        ({"ring": "ctr", "ring_copies": 3, "slots": 4, "ring_slots": 2}, "a ring lies over 2 slots"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        wm.sql(NEAR, **streams()).run(**options)


@pytest.mark.parametrize("ring", ["atr", "ctr"])
def test_groups_count_each_result_once(ring: str) -> None:
    text = (
        "SELECT A.x % 3 AS g, COUNT(*) AS n, SUM(B.x) AS total FROM A [RANGE 10 SECONDS SLIDE 5 SECONDS], "
        "B [RANGE 5 SECONDS] WHERE ABS(A.x - B.x) < 9 GROUP BY g"
    )
    query = wm.sql(text, **streams())
    assert counted(query.run(ring=ring, slots=3, batch_rows=70)) == counted(query.run())


@pytest.mark.parametrize("ring", ["psp", "atr", "ctr"])
def test_a_product_is_stopped_by_a_limit(ring: str) -> None:
    query = wm.sql(NEAR, **streams())
    assert query.run(ring=ring, batch_rows=10, max_candidates=10**6).num_rows
    with pytest.raises(LimitError, match="max_candidates is 500"):
        query.run(ring=ring, batch_rows=200, max_candidates=500)


def test_a_query_without_a_ring_does_not_mind() -> None:
    query = wm.sql("SELECT A.x FROM A, B WHERE A.x = B.x", **streams())
    assert counted(query.run(ring="atr")) == counted(query.run())


def test_explain_says_how_often_rows_are_kept() -> None:
    query = wm.sql(NEAR, **streams())
    shown = query.explain(ring="atr", ring_segment=timedelta(seconds=50))
    assert "J1 ring, aligned with A in segments of 50 s" in shown
    assert "A once, B 1.4 times" in shown
    assert "aligned" not in query.explain()
    assert "J1 keeps each row 3 times (ctr)" in query.explain(ring="ctr", ring_copies=3, slots=3)


def test_a_job_goes_from_one_way_to_another_when_it_is_started_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = streams()
    file = job(tmp_path)
    for part, (ways, name) in enumerate(WAYS_IN_TURN):
        for stream in "AB":
            pq.write_table(tables[stream].slice(part * 200, 200), tmp_path / stream / f"{part}.parquet")
        capsys.readouterr()
        assert main(["run", str(file), "--json", *(word for way in ways for word in ("--set", f"adapt.{way}"))]) == 0
        events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        *_, batch = [event for event in events if event["event"] == "batch"]
        assert all(name in state for state in batch["states"]), part
    assert counted(pq.read_table(tmp_path / "out")) == counted(wm.sql(NEAR, **tables).run())
    assert main(["explain", str(file), "--set", "adapt.ring=atr", "--against", str(tmp_path / "ck")]) == 0
    assert "is changed from (A B) by psp to (A B) by atr in segments of 10 s" in capsys.readouterr().out


# What a job is started with, one run after the other, and what the names of its states have then.
WAYS_IN_TURN = [
    ((), "@~"),
    (("ring=atr", "ring_segment=7 seconds"), "@^7000000"),
    ((), "@^7000000"),
    (("ring=ctr", "ring_copies=3"), "*3#"),
    (("ring=psp",), "@~"),
]


def job(folder: Path) -> Path:
    for name in "AB":
        (folder / name).mkdir()
    file = folder / "job.toml"
    file.write_text(
        f'query = "{NEAR}"\n'
        + "".join(
            f'[streams.{name}]\nformat = "parquet"\npath = "{folder / name}"\nschema = "x BIGINT, ts BIGINT"\n'
            for name in "AB"
        )
        + f'[sink]\npath = "{folder / "out"}"\n[run]\nruntime = "local"\ncheckpoint = "{folder / "ck"}"\nslots = 3\n'
    )
    return file
