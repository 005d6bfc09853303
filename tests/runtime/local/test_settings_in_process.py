"""Settings of a run do in this process what they do for a job."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.errors import JobError

BATCHES, ROWS = 6, 30
DATA = {
    name: pa.table(
        {
            "k": [(i * step) % 7 for i in range(BATCHES * ROWS)],
            "v": list(range(BATCHES * ROWS)),
            "ts": [i * 100_000 for i in range(BATCHES * ROWS)],
        }
    )
    for name, step in (("A", 1), ("B", 3), ("C", 5))
}
TEXT = """
SELECT A.v AS a, B.v AS b, C.v AS c FROM A [RANGE 1 SECONDS], B [RANGE 1 SECONDS], C [RANGE 1 SECONDS]
WHERE A.k = B.k AND B.k = C.k
"""


def run(**settings: Any) -> tuple[list[str], list[dict[str, Any]]]:
    events: list[Any] = []
    found = wm.sql(TEXT, streams=DATA).run(batch_rows=ROWS, report=events.append, **settings)
    return sorted(map(str, found.to_pylist())), [d for event in events for d in event.get("decisions", ())]


ANSWER, _ = run()


@pytest.mark.parametrize(
    "settings, decision",
    [
        ({"force": [{"at_batch": 2, "plan": "(A (B C))", "by": "moving-state"}]}, "ChangePlan"),
        ({"force": [{"at_batch": 2, "slots": 3}, {"at_batch": 3, "move": ["J1:*->2"]}]}, "MoveGroups"),
        ({"force": [{"at_batch": 2, "spill_share": 0.5}], "merge": "off"}, "SpillGroups"),
        (
            {"memory": 2000, "spill": "largest", "spill_at": 0.5, "spill_share": 1, "smoothing": "recent"},
            "SpillGroups",
        ),
        ({"scale": "seconds", "scale_slots": (1, 2), "scale_seconds": 1000.0, "plan": "((A B) C)"}, None),
        ({"balance": "time", "slot_weights": [1, 0.5], "balance_every": 1, "balance_threshold": 0.9}, None),
        ({"allocate": "even", "cores": 2, "replan": "off", "migrate": "seeded"}, None),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else value,
)
def test_the_answer_is_the_same(settings: dict[str, Any], decision: str | None) -> None:
    answer, decisions = run(**{"plan": "((A B) C)"} | settings)
    assert answer == ANSWER != []
    if decision is not None:
        assert decision in {entry["decision"] for entry in decisions}


def test_a_forced_step_that_cannot_be_taken_is_refused() -> None:
    with pytest.raises(JobError, match=r'\[\[adapt.force\]\] names "J9:0"'):
        run(force=[{"at_batch": 1, "spill": ["J9:0"]}])
    with pytest.raises(JobError, match='"scale" has no time that a batch may take'):
        run(scale="seconds")
    with pytest.raises(JobError, match='"slot_weights" has 1 numbers, and there are 2 slots'):
        run(slot_weights=[1])


def test_help_has_every_setting_with_its_default() -> None:
    text = wm.sql(TEXT, streams=DATA).run.__doc__ or ""
    assert "balance_every: The number of batches between two looks" in text
