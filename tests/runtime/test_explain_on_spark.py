"""`explain` of a query over streaming DataFrames takes what `start` takes, and shows what that begins with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from function_sink import open_query
from judged_jobs import SECOND, JoinCase, JudgedJob, draw_streams, write_streams
from watersmeet.errors import CheckpointError, JobError
from watersmeet.runtime import opening
from watersmeet.start.resolve import resolve

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASE = JoinCase({"A": ("x",), "B": ("x", "y"), "C": ("y",)}, "A.x = B.x AND B.y = C.y", 3 * SECOND)
STREAMS = draw_streams(CASE, 2, 8, 5, seed=2)


def test_a_start_is_what_was_explained(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_streams(CASE, STREAMS, tmp_path / "in", 0, 1)
    JudgedJob.write(tmp_path, CASE, "groups = 6", 'plan = "((A B) C)"', runtime="spark")
    query, options = open_query(spark, tmp_path)
    resolved: list[object] = []

    def noted(*arguments: Any) -> Any:
        resolved.append(arguments)
        return resolve(*arguments)

    monkeypatch.setattr(opening, "resolve", noted)
    for settings in ({}, {"plan": "(A (B C))", "slots": 3}, {"groups": 4}):
        taken = options | {"path": str(tmp_path / "out")} | settings
        shown = query.explain(**taken)
        events: list[dict[str, Any]] = []
        resolved.clear()
        writer = query.writeStream.report(events.append).trigger(availableNow=True)
        writer.start(**taken).awaitTermination()
        assert len(resolved) == 1
        start = events[0]
        assert start["event"] == "start"
        assert shown.startswith(f"plan {start['plan']}: ")
        assert f"where ({start['placement']['slots']} slot" in shown
        assert ("before the first batch:" in shown) == (start["change"] is not None)
        replayable = {name: {"replayable": True} for name in CASE.streams}
        assert start["promises"] == {"sources": replayable, "sink": {"idempotent": True}}
    with pytest.raises(JobError, match="cannot share"):
        query.explain(**options | {"slots": 9, "groups": 4})
    (tmp_path / "local").mkdir()
    write_streams(CASE, STREAMS, tmp_path / "local" / "in", 0, 1)
    JudgedJob.write(tmp_path / "local", CASE).finish()
    with pytest.raises(CheckpointError, match="made by the local runtime"):
        query.explain(checkpointLocation=str(tmp_path / "local" / "ck"))


def test_a_job_is_resolved_once_and_begins_with_what_was_explained(tmp_path: Path) -> None:
    """Before there is a JVM, and with another plan than its checkpoint has."""
    write_streams(CASE, STREAMS, tmp_path / "in", 0, 1)
    job = JudgedJob.write(tmp_path, CASE, adapt='plan = "((A B) C)"', runtime="spark")
    for overrides in ((), ("adapt.plan=mjoin", "run.slots=3")):
        sets = [part for override in overrides for part in ("--set", override)]
        code, out, err = job.call("explain", "job.toml", "--json", *sets)
        assert (code, err) == (0, "")
        start, shown = job.start(*overrides).start, json.loads(out)
        assert start is not None
        assert all(start[name] == shown[name] for name in ("plan", "placement", "change"))
    local = JudgedJob.write(tmp_path, CASE, adapt='plan = "((A B) C)"')
    refused = local.call("run", "job.toml")
    assert (refused[0], "made by the spark runtime" in refused[2]) == (2, True)
    assert local.call("explain", "job.toml") == refused
