"""A query over Arrow data changes its plan as a job does. The machine is measured when a change would pay."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.optimize.choose import STANDARD

SECOND = 1_000_000
COLUMNS = {"A": ("x",), "B": ("x", "y"), "C": ("y", "z"), "D": ("z",)}
TEXT = """
SELECT a.v AS av, b.v AS bv, c.v AS cv, d.v AS dv
FROM A a [RANGE 3 SECONDS], B b [RANGE 3 SECONDS], C c [RANGE 3 SECONDS], D d [RANGE 3 SECONDS]
WHERE a.x = b.x AND b.y = c.y AND c.z = d.z
"""
FEW, MANY = 8, 150  # values of a column: pairs that match are many, or few
BATCHES, ROWS = 30, 40


def streams(flip: int) -> dict[str, list[pa.RecordBatch]]:
    """At first the first join is selective, from the batch of the flip on the last one."""
    draw = random.Random(5)

    def batch(name: str, number: int) -> pa.RecordBatch:
        domain = {"x": FEW, "y": 40, "z": MANY} if number >= flip else {"x": MANY, "y": 40, "z": FEW}
        rows = [
            {**{c: draw.randrange(domain[c]) for c in COLUMNS[name]}, "v": number * ROWS + i, "ts": number * SECOND + i}
            for i in range(ROWS)
        ]
        return pa.RecordBatch.from_pylist(rows)

    return {name: [batch(name, number) for number in range(BATCHES)] for name in COLUMNS}


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[mock.Mock]:
    """A machine that was never measured; each time that it is."""
    monkeypatch.setenv("WATERSMEET_COSTS", str(tmp_path / "costs.json"))
    with mock.patch("watersmeet.runtime.calibration.measure_costs", return_value=STANDARD) as found:
        yield found


def run(data: dict[str, list[pa.RecordBatch]], **settings: Any) -> tuple[list[Any], list[Any]]:
    events: list[Any] = []
    table = wm.sql(TEXT, streams=data).run(report=events.append, **settings)
    changes = [entry for event in events for entry in event.get("decisions", ()) if entry["decision"] == "ChangePlan"]
    return sorted(map(str, table.to_pylist())), changes


def test_steady_streams_measure_nothing(measured: mock.Mock) -> None:
    _, changes = run(streams(flip=BATCHES), plan="left-deep", replan="refined", replan_every=2)
    assert not changes
    measured.assert_not_called()


def test_the_machine_is_measured_when_a_change_would_pay(measured: mock.Mock) -> None:
    data = streams(flip=12)
    answer, changes = run(data, plan="left-deep", replan="data-driven", replan_every=3)
    assert changes
    assert changes[0]["before_batch"] >= 12
    measured.assert_called_once()
    fixed, unchanged = run(data, plan="left-deep")
    assert not unchanged, "a plan that is named stays"
    assert answer == fixed


def test_replan_is_on_unless_a_plan_is_named(measured: mock.Mock) -> None:
    """As in a job file and on Spark."""
    query = wm.sql(TEXT, streams=streams(flip=12))
    found = {}
    for name, settings in {"auto": {}, "named": {"plan": "mjoin"}, "off": {"replan": "off"}}.items():
        opening = mock.patch("watersmeet.runtime.local.in_memory.open_run", side_effect=LookupError)
        with opening as opened, pytest.raises(LookupError):
            query.run(**settings)  # type: ignore[arg-type]
        found[name] = opened.call_args.args[1].memory.replan.trigger
    assert found == {"auto": "refined", "named": "off", "off": "off"}
    measured.assert_not_called()
