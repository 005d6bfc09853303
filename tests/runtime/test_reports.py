"""Reports of tasks: nothing is lost on the way through JSON, and parts add up."""

from __future__ import annotations

import json
from dataclasses import fields, replace

from small_plans import chain_plan, named, piece
from watersmeet.model.group_figures import GroupObservation
from watersmeet.model.ids import SegmentId
from watersmeet.model.intake import FilePosition, UnfinishedIntake
from watersmeet.model.plain_json import plain, read
from watersmeet.model.segments import WAITING
from watersmeet.model.slot_figures import SlotFigures
from watersmeet.model.statistics import AlikeCounts, FilterCounts, PairCounts, PredicateCounts
from watersmeet.runtime.reports import StreamReport, TaskReport, merge_stream_reports

PLAN = chain_plan()
PART = UnfinishedIntake(5, "f4", "f3", 4, FilePosition(7, 90, 6, 8), 60)
LEFT = {"files": 3}
MORE = (FilterCounts("A", "less(A.v,3)", 1.0, 1.0, 0.5),)
ASKED = (FilterCounts("A", "less(A.v,3)", 9.0, 4.0, 0.25),)
HELD = (replace(piece(PLAN, "w", "A", ((0, 1),), 0), tier=WAITING),)
STREAM = StreamReport(
    "A", 9, 2, 70, -5, ("late-1",), (("f1", 3), ("f2", 4)), 2, {"late-1": (8, 1)}, 1, 99, PART, LEFT, ASKED, HELD
)


def test_what_was_read_of_a_stream_travels_whole() -> None:
    assert read(StreamReport, json.loads(json.dumps(plain(STREAM)))) == STREAM
    default = StreamReport("A")
    assert all(getattr(STREAM, entry.name) != getattr(default, entry.name) for entry in fields(STREAM)[1:])
    assert read(StreamReport, json.loads(json.dumps(plain(default)))) == default


def test_what_a_task_did_travels_whole() -> None:
    """Every field is given here, so that none can be forgotten on one runtime."""
    seen = GroupObservation.nothing(2, 4)
    seen.arrivals[0][1] = 3
    seen.local[2] = 5
    report = TaskReport(
        added=(piece(PLAN, "s", "A", ((0, 2),), 0, cold=3),),
        released=((SegmentId("t"), ((0, 1), (4, 6))),),
        scratch=(SegmentId("u"),),
        results=("r1", "r2"),
        sums={"r1": (4, 17), "r2": (5, 18)},
        rows_out=7,
        joins={"J1": {"rows_in": 4, "rows_out": 7}},
        rows={"A": 3},
        pairs=(PairCounts(("A",), ("B",), 10.0, 3.0, 2.0, 1.0),),
        rows_merged=2,
        groups={named(PLAN, "J1"): seen},
        sync_seconds=0.5,
        filters=ASKED,
        predicates=(PredicateCounts("near(A.x, B.x)", 9.0, 4.0, 0.25),),
        slot=1,
        figures=SlotFigures(0.5, 0.25, 4.0, 2.0),
        own_pairs=(PairCounts(("A",), ("B",), 5.0, 3.0, 2.0, 1.0),),
        alike={"A": AlikeCounts(9.0, 4.0)},
    )
    again = read(TaskReport, json.loads(json.dumps(plain(report))))
    default = TaskReport()
    for entry in fields(TaskReport):
        assert getattr(report, entry.name) != getattr(default, entry.name), "an example of each"
        if entry.name != "groups":
            assert getattr(again, entry.name) == getattr(report, entry.name)
    assert again.groups[named(PLAN, "J1")].to_json() == seen.to_json()


def test_parts_of_a_stream_add_up() -> None:
    other = StreamReport("A", 1, 0, 90, 4, ("late-2",), (("f3", 9),), 7, {"late-2": (9, 2)}, 3, 95, filters=MORE)
    empty = StreamReport("A")
    (together,) = merge_stream_reports([STREAM, empty, other])
    files, sums = (("f1", 3), ("f2", 4), ("f3", 9)), {"late-1": (8, 1), "late-2": (9, 2)}
    late = ("late-1", "late-2")
    asked = (FilterCounts("A", "less(A.v,3)", 10.0, 5.0, 0.75),)
    assert together == StreamReport("A", 10, 2, 90, -5, late, files, 7, sums, 4, 99, PART, LEFT, asked, HELD)
    assert merge_stream_reports([empty, StreamReport("B", 1)]) == [empty, StreamReport("B", 1)]
