"""Changes of the plan on Spark, drawn: whatever is asked for, by whichever road, and whatever ends the runs between.

A history is a few starts of one query on one checkpoint. Each start has slots, a budget and perhaps a plan of its own,
changes the plan before any batches by any roads, and the slots, over which it spreads groups, spills by force, and goes
to the end of the files that have come, is stopped on the way, or fails at a point of a change. Steps of seeding take a
row or a few. The answer is the oracle's.

A few histories in `make test`, more of them as a campaign; `WATERSMEET_EXAMPLES=5000` draws new ones.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from drawn_plans import all_plans, key_classes
from function_sink import open_query
from judged_jobs import (
    SECOND,
    JoinCase,
    JudgedJob,
    difference,
    draw_streams,
    duckdb_answer,
    late_rows,
    write_streams,
)
from strategies import RANDOMS, Case, cases, contract_settings, counted
from watersmeet import faults
from watersmeet.adapt.policies.migrate import ROADS, seeded
from watersmeet.errors import WatersmeetError
from watersmeet.faults import OF_MIGRATION, POINTS
from watersmeet.lang.binder import bind
from watersmeet.model.ids import Partitioning
from watersmeet.model.routing import Groups, union_ranges
from watersmeet.model.schema import normal_schema
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.spreading import dealt_inputs
from watersmeet.plan.tree import choose_tree
from watersmeet.settings.adapt import AdaptSection, AdaptSettings
from watersmeet.settings.every import Sections
from watersmeet.settings.forced_step import ForcedStep, LabelledSpread
from watersmeet.state.files import Folder
from watersmeet.state.table import read_versions

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

MOST_BATCHES = 8
WINDOWS_ALONE = "parallel-track"


class DiedHereError(Exception):
    """What a process that ends there would not live to see."""


@dataclass(frozen=True)
class Start:
    """One start of the query, and how it ends."""

    files: int  # of each stream, that have come by then
    options: dict[str, Any]
    forced: tuple[ForcedStep, ...]
    dies: tuple[str, int] | None = None  # at which point, and which time it is reached
    stops_after: int | None = None  # batches

    @property
    def whole(self) -> bool:
        return self.dies is None and self.stops_after is None


def draw_history(case: Case, draw: Random) -> list[Start]:
    """Starts that take in more and more files; the last one goes to the end of all."""
    batches = len(case.batches)
    plans = all_plans(case)
    windowed = all(entry.window_us is not None for entry in case.inputs)
    roads = [road.name for road in ROADS if windowed or road.name != WINDOWS_ALONE]
    starts: list[Start] = []
    cuts = sorted(draw.sample(range(1, batches + 1), min(batches, draw.randint(0, 2))))
    for files in (*cuts, batches, batches):
        steps = []
        for batch in sorted(draw.sample(range(batches), min(batches, 3))):
            share, slots = (
                draw.choice([None, None, 0.5]),
                draw.choice([None, None, draw.randint(1, min(4, case.groups))]),
            )
            plan, by = draw.choice(plans), draw.choice(roads)
            groups = some(case, draw)
            spread = draw_spreads(case, plan, slots, draw) if slots is not None and slots > 1 and groups is None else ()
            steps.append(
                ForcedStep(batch, spill_share=share, plan=plan, by=by, slots=slots, spread=spread, groups=groups)
            )
        options: dict[str, Any] = {"plan": case.plan, "slots": draw.randint(1, min(3, case.groups))}
        if draw.random() < 0.5 and not case.apart:
            options["memory"] = draw.choice([300, 1500, 6000])
        if draw.random() < 0.25:
            options["plan"] = draw.choice(plans)
        dies = (draw.choice(OF_MIGRATION), draw.choice([1, 1, 2])) if draw.random() < 0.5 else None
        stops = draw.randint(1, 3) if dies is None and draw.random() < 0.3 else None
        starts.append(Start(files, options, tuple(steps), dies, stops))
    return [*starts[:-1], Start(batches, starts[-1].options, starts[-1].forced)]


def draw_spreads(case: Case, plan: str, slots: int, draw: Random) -> tuple[LabelledSpread, ...]:
    """Of some groups of the joins of a plan, over all slots."""
    streams = {
        name: Stream(name, normal_schema(stream.schema), "ts", case.lateness[name])
        for name, stream in case.streams.items()
    }
    query = bind(case.text, streams)
    laid = lay_out(query, choose_tree(query, plan))
    found: dict[tuple[Partitioning, int], LabelledSpread] = {}  # joins on one key are spread together
    for node in laid.operators.values():
        for group in range(case.groups):
            if draw.random() < 0.4:
                dealt = draw.choice(dealt_inputs(laid, node.partitioning))
                found.setdefault((node.partitioning, group), (node.label, group, tuple(range(slots)), dealt))
    return tuple(found.values())


def some(case: Case, draw: Random) -> Groups | None:
    """Groups that are to have a plan alone, where they can."""
    classes = key_classes(case.equalities)
    if len(classes) != 1 or len(classes[0]) < len(case.inputs) or draw.random() < 0.4:
        return None
    return union_ranges((group, group + 1) for group in draw.sample(range(case.groups), draw.randint(1, case.groups)))


@contextmanager
def dying(at: tuple[str, int] | None) -> Iterator[None]:
    """Have the driver fail at a point, once."""
    if at is None:
        yield
        return
    point, left = at
    reached = 0

    def reach(name: str) -> None:
        nonlocal reached
        reached += name == point
        if name == point and reached == left:
            raise DiedHereError(point)

    with mock.patch.object(faults, "reach", reach):
        yield


def forcing(steps: tuple[ForcedStep, ...]) -> Sections:
    return Sections(adapt=AdaptSection(settings=AdaptSettings(forced=steps)))


@dataclass
class History:
    session: Any
    case: Case
    folder: Path

    def play(self, starts: list[Start], draw: Random) -> Counter[tuple[Any, ...]]:
        came = 0
        for start in starts:
            note(f"{start}")
            self._arrive(came, start.files)
            came = start.files
            with (
                dying(start.dies),
                mock.patch.object(seeded, "_rows_allowed", lambda standing: draw.choice([1, 1, 2, 5])),
            ):
                self._run(start)
        return self.answer()

    def _arrive(self, first: int, end: int) -> None:
        for name, stream in self.case.streams.items():
            (self.folder / name).mkdir(exist_ok=True)
            for number, batch in list(enumerate(stream.record_batches()))[first:end]:
                path = self.folder / name / f"{number:03d}.parquet"
                pq.write_table(pa.Table.from_batches([batch]), path)
                os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    def _run(self, start: Start) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema

        frames = {}
        for name, stream in self.case.streams.items():
            reader = self.session.readStream.schema(from_arrow_schema(stream.schema)).option("maxFilesPerTrigger", 1)
            frames[name] = reader.format("parquet").load(str(self.folder / name))
        events: list[Any] = []
        query = wm.sql(self.case.text, lateness=self.case.lateness, **frames)
        writer = query.writeStream.format("parquet").settings(forcing(start.forced)).report(events.append)
        writer.options(path=str(self.folder / "out"), checkpointLocation=str(self.folder / "ck"), durability="process")
        run = writer.options(groups=self.case.groups, **start.options).trigger(availableNow=True).start()
        if start.stops_after is not None:
            while run.isActive and sum(event["event"] == "batch" for event in events) < start.stops_after:
                run.awaitTermination(0.05)
            run.stop()
            return
        try:
            run.awaitTermination()
        except WatersmeetError as error:
            assert start.dies is not None and DiedHereError.__name__ in f"{error.primary} {error.detail}", error

    def answer(self) -> Counter[tuple[Any, ...]]:
        files = sorted((self.folder / "out").glob("*.parquet"))
        return functools.reduce(lambda rows, file: rows + counted(pq.read_table(file)), files, Counter())


def in_few_batches(case: Case, rows: int) -> Case:
    """With `rows` in a batch, or as many more as it takes: each batch is a job of Spark's, and more than one."""
    sizes = (rows * 2**doubled for doubled in range(6))
    return next((cut for size in sizes if len((cut := case.longer(size)).batches) <= MOST_BATCHES), case)


def check(session: Any, case: Case, draw: Random, rows_a_batch: int) -> None:
    case = in_few_batches(case, rows_a_batch)
    with tempfile.TemporaryDirectory() as folder:
        rows = History(session, case, Path(folder)).play(draw_history(case, draw), draw)
    assert rows == case.answer().rows


drawn = (cases(largest=4), RANDOMS, st.sampled_from([2, 5]))


@contract_settings(3)
@given(case=drawn[0], draw=drawn[1], rows=drawn[2])
def test_changes_of_the_plan_change_nothing(spark: Any, case: Case, draw: Random, rows: int) -> None:
    check(spark, case, draw, rows)


@pytest.mark.campaign
@contract_settings(60)
@given(case=drawn[0], draw=drawn[1], rows=drawn[2])
def test_many_changes_of_the_plan_change_nothing(spark: Any, case: Case, draw: Random, rows: int) -> None:
    check(spark, case, draw, rows)


# --- killed ----------------------------------------------------------------------------------------------------------

KILLED = JoinCase(
    {"A": ("k",), "B": ("k",), "C": ("k", "m"), "D": ("m",)},
    "A.k = B.k AND B.k = C.k AND C.m = D.m",
    window_us=3 * SECOND,
    lateness_us=SECOND,
)
BATCHES = 9
PLANS = ("(A B C D)", "((A B C) D)", "(((A B) C) D)", "((A B) (C D))", "(A (B (C D)))", "(A B (C D))")
MORE = ("", "spill_share = 0.5", "slots = 3")
SEEDS = int(os.environ.get("WATERSMEET_SEEDS", "6"))


def forced(batch: int, plan: str, by: str, more: str = "") -> str:
    return f'[[adapt.force]]\nat_batch = {batch}\nplan = "{plan}"\nby = "{by}"\n{more}\n'


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(SEEDS))
def test_histories_with_kills(seed: int, tmp_path: Path) -> None:
    """Processes of their own, which die by SIGKILL at points of a change and elsewhere; each has its own settings."""
    draw = random.Random(seed)
    streams = draw_streams(KILLED, BATCHES, 7, {"k": 5, "m": 4}, seed=seed, late=1)
    expected = duckdb_answer(KILLED, streams)
    write_streams(KILLED, streams, tmp_path / "in")
    plan = draw.choice(PLANS)
    for start in range(4):
        steps = [
            forced(
                batch, draw.choice(PLANS), draw.choice(ROADS).name, draw.choice(["", "spill_share = 0.5", "slots = 3"])
            )
            for batch in sorted(draw.sample(range(BATCHES), 3))
        ]
        memory = draw.choice(["", "memory = 3000", "memory = 15000"])
        settings = f"{memory}\nslots = {draw.randint(1, 3)}\ngroups = 4"
        job = JudgedJob.write(tmp_path, KILLED, settings, f'plan = "{plan}"\n' + "".join(steps), runtime="spark")
        fault = f"{draw.choice((*OF_MIGRATION * 3, *POINTS))}:{draw.choice((1, 1, 2, 3))}" if start < 3 else None
        done = job.start(fault=fault)
        worker_died = "error: a Python worker of Spark died" in done.stderr  # points in tasks are reached there
        assert done.code == 0 or (fault is not None and (done.code == -signal.SIGKILL or worker_died)), done.stderr
        assert job.answer() <= expected, "nothing twice, and nothing wrong"
    assert difference(job.answer(), expected) == ""
    assert job.late() == late_rows(KILLED, streams)
    code, out, err = job.call("state", "verify", "ck")
    assert code == 0, out + err


def test_seeded_in_steps_beside_large_batches(spark: Any, tmp_path: Path) -> None:
    """Thousands of rows a step, and it fails after the second of them: the next run goes on from there."""
    case = JoinCase({"A": ("x",), "B": ("x", "y"), "C": ("y",)}, "A.x = B.x AND B.y = C.y")
    streams = draw_streams(case, 12, 3000, 12_000, seed=3)
    write_streams(case, streams, tmp_path / "in")
    force = [{"at_batch": 4, "plan": "(A (B C))", "by": "seeded"}]
    job = JudgedJob.write(tmp_path, case, "slots = 2\ngroups = 40", 'plan = "((A B) C)"', runtime="spark")
    point = "after-advance", 2

    def run(at: tuple[str, int] | None) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        query, options = open_query(spark, tmp_path)
        writer = query.writeStream.format("parquet").option("path", str(tmp_path / "out")).options(**options)
        with dying(at), mock.patch.object(seeded, "_rows_allowed", lambda standing: 4000):
            running = writer.option("force", force).report(events.append).trigger(availableNow=True).start()
            if at is None:
                running.awaitTermination()
            else:
                with pytest.raises(WatersmeetError, match=DiedHereError.__name__):
                    running.awaitTermination()
        return events

    assert any(event.get("migration") for event in run(point)), "beside batches"
    track = list(read_versions(Folder(str(tmp_path / "ck" / "state"))))[-1].warming_up
    assert track is not None and track.warming is not None
    assert 0 < track.warming.share < 1, "bit by bit"
    events = run(None)
    (end,) = [d for event in events for d in event.get("decisions", ()) if d["decision"] == "ChangePlan"]
    assert (end["plan"], end["by"]) == ("(A (B C))", "seeded")
    assert end["batches"] >= 4
    assert end["rows"] > 4 * 3 * 3000, "what came meanwhile, too"
    assert difference(job.answer(), duckdb_answer(case, streams)) == ""
