"""What is shown beforehand is what the start then has, or both are refused alike: any job, checkpoint and settings.

One test draws queries and opens their runs; one draws settings of jobs and goes through the command line; one does so
for queries over Arrow data in this process.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from changed_queries import text
from drawn_plans import all_plans, place_filters
from judged_jobs import SECOND, JoinCase, JudgedJob, draw_streams, write_streams
from strategies import RANDOMS, Case, cases, contract_settings
from watersmeet.errors import WatersmeetError
from watersmeet.lang.binder import bind
from watersmeet.model.ids import Label
from watersmeet.model.schema import normal_schema
from watersmeet.model.streams import Stream
from watersmeet.plan.query import Query
from watersmeet.plan.ring_ways import ATR, CTR, PSP, UNSAID, RingWay
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource
from watersmeet.runtime.looking_ahead import look_ahead
from watersmeet.runtime.opening import open_run
from watersmeet.runtime.outputs import Outputs
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.forced_step import ForcedStep
from watersmeet.settings.plan import PlanSettings
from watersmeet.settings.run import RunSettings
from watersmeet.start.promises import Promises
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.folders import CheckpointFolders

WAYS = (UNSAID, UNSAID, RingWay(PSP), RingWay(ATR), RingWay(CTR, copies=2))
# What a run may decide between its start and the version that is looked at, and that places groups elsewhere.
PLACING = {"MoveGroups", "CutGroup", "SpreadGroup", "DrawTogether", "Rescale", "ResizeRing"}


# --- drawn queries, opened -------------------------------------------------------------------------------------------


@contract_settings(20)
@given(cases(largest=4), st.data())
def test_drawn_queries(case: Case, data: st.DataObject) -> None:
    """Each batch in a run of its own on one checkpoint, with a plan, settings and perhaps a query of its own."""
    note(case.text)
    with tempfile.TemporaryDirectory() as folder:
        for number, batch in enumerate([*case.batches[:3], {}]):
            query = bind(data.draw(st.sampled_from(queries_of(case)), label="query"), streams_of(case))
            settings = draw_settings(case, number, data)
            if settings is not None:
                run = start_as_shown(query, settings, Path(folder))
                if run is not None:
                    with run:
                        run.take(case, batch, stopped=data.draw(st.booleans(), label="stopped"))


def streams_of(case: Case) -> dict[str, Stream]:
    return {
        name: Stream(name, normal_schema(stream.schema), "ts", case.lateness[name])
        for name, stream in case.streams.items()
    }


def queries_of(case: Case) -> list[str]:
    """The query of the case, mostly; that with more predicates, and with another meaning."""
    word = "AND" if " WHERE " in case.text else "WHERE"
    first, *_, last = (entry.alias for entry in case.inputs)
    more = [f"{case.text} {word} {first}.ts IS NOT NULL", f"{case.text} {word} {first}.v <> {last}.v"]
    return [case.text, case.text, f"{case.text} ", *more]


def draw_settings(case: Case, batch: int, data: st.DataObject) -> RunSettings | None:
    """None: no settings, since they contradict each other."""
    plans = all_plans(case)
    plan = data.draw(st.sampled_from([case.plan, case.plan, "auto", "mjoin", "left-deep", *plans]), label="plan")
    if plan in plans:
        plan = place_filters(plan, case.conditions, data.draw(RANDOMS, label="above").randrange)
    slots = data.draw(st.integers(1, 4), label="slots")
    groups = data.draw(st.sampled_from([case.groups, case.groups, 5, 7]), label="groups")
    share = data.draw(st.sampled_from([None, None, None, 1, 500]), label="budget")
    allocate = data.draw(st.sampled_from(["spread", "fewest", "even"]), label="allocate")
    steps = data.draw(st.one_of(st.just([]), st.lists(drawn_steps(batch, plans), max_size=2)), label="forced")
    try:
        memory = AdaptSettings(share, balance=BalanceSettings("off", allocate=allocate), forced=tuple(steps))
        return RunSettings(PlanSettings(plan, ring=data.draw(st.sampled_from(WAYS))), memory, slots, groups)
    except WatersmeetError:
        return None


def drawn_steps(batch: int, plans: Sequence[str]) -> st.SearchStrategy[ForcedStep]:
    """Steps before this batch, or one to come: many that cannot be taken, and slow changes of the plan."""
    at, plan, slots = st.sampled_from([batch, batch, batch + 1]), st.sampled_from(plans), st.integers(0, 3)
    labels, group = st.sampled_from(["J1", "J1", "J2", "k0", "J9"]).map(Label), st.integers(0, 8)
    slowly = st.builds(ForcedStep, at, plan=plan, by=st.just("parallel-track"))
    some = st.builds(ForcedStep, at, plan=plan, groups=st.just(((0, 2),)), by=st.just("moving-state"))
    return st.one_of(
        slowly,
        some,
        st.one_of(slowly, some),
        st.builds(ForcedStep, at, plan=st.just("auto")),
        st.builds(ForcedStep, at, slots=st.integers(1, 9)),
        st.builds(ForcedStep, at, move=st.tuples(st.tuples(labels, st.none(), slots))),
        st.builds(ForcedStep, at, spill=st.tuples(st.tuples(labels, group))),
        st.builds(ForcedStep, at, cut=st.tuples(st.tuples(labels, group))),
    )


class Started:
    """A run that is at its first batch."""

    def __init__(self, start: StartPlan, run: LocalRun, close: Any) -> None:
        self._start, self._run, self._close = start, run, close

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *error: object) -> None:
        self._run.close()
        self._close()

    def take(self, case: Case, batch: dict[str, Any], stopped: bool) -> None:
        """Make the change that it begins with, which must come to what was shown; then run the batch."""
        self._run.driver.begin()
        manifest, start = self._run.manifest, self._start
        assert manifest.plan == start.tree
        assert manifest.answering.spec == start.plan.spec
        assert {state for plan in [self._run.plan] for state in plan.states} == set(start.plan.states)
        assert manifest.placement == start.placement
        sources = {
            name: RowsSource(
                streams_of(case)[name], [pa.RecordBatch.from_pylist(rows, schema=case.streams[name].schema)]
            )
            for name, rows in batch.items()
        }
        pulled = {name: found for name, source in sources.items() if (found := source.pull(set())) is not None}
        if pulled:
            self._run.driver.run_batch(pulled)
        if not stopped:
            self._run.driver.end()


def start_as_shown(query: Query, settings: RunSettings, folder: Path) -> Started | None:
    """The run, which begins with what was seen beforehand; None where both were refused, in the same words."""
    folders = CheckpointFolders(str(folder / "ck"))
    shown: StartPlan | WatersmeetError
    try:
        shown = look_ahead(query, settings, folders, "local")
    except WatersmeetError as error:
        shown = error
    try:
        run = open_run(query, settings, folders, Outputs.of("parquet", str(folder / "out"), None))
    except WatersmeetError as error:
        assert isinstance(shown, WatersmeetError), error
        assert (str(error), error.exit_code) == (str(shown), shown.exit_code)
        return None
    assert isinstance(shown, StartPlan), shown
    events: list[dict[str, Any]] = []
    run.report_start(Promises(), events.append)
    assert events[0]["plan"] == shown.tree
    assert events[0]["placement"] == shown.placement.to_json()
    assert events[0]["change"] == shown.change_json()
    local = LocalRun(
        run.plan,
        run.checkpoint,
        run.outputs.writer,
        controller=run.controller,
        deliver=run.outputs.deliver,
        make_spec=run.make_spec,
        start=run.start,
    )
    return Started(shown, local, run.close)


# --- drawn settings of a job, through the command line ---------------------------------------------------------------

CHAIN = JoinCase({"A": ("x",), "B": ("x", "y"), "C": ("y",)}, "A.x = B.x AND B.y = C.y", 4 * SECOND)
CYCLE = JoinCase(
    {"A": ("k", "n"), "B": ("k", "m"), "C": ("m", "n")}, "A.k = B.k AND B.m = C.m AND C.n = A.n", 4 * SECOND
)
APART = JoinCase({"A": ("x",), "B": ("x",), "C": ("y",)}, "A.x = B.x AND abs(B.v - C.v) < 3", 4 * SECOND)
BATCHES = 3
STREAMS = {case.where: draw_streams(case, BATCHES, 6, 3, seed=5) for case in (CHAIN, CYCLE, APART)}
PLANS = ["auto", "auto", "mjoin", "left-deep", "((A B) C)", "(A (B C))", "bjtree-init", "((A C) B)", "nothing"]


@contract_settings(16)
@given(st.sampled_from([CHAIN, CHAIN, CYCLE, APART]), st.data())
def test_drawn_jobs(case: JoinCase, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, batches = Path(folder), data.draw(st.integers(0, BATCHES), label="batches")
        write_streams(case, STREAMS[case.where], home / "in", 0, max(batches, 1))
        job = JudgedJob.write(home, case)
        if batches:
            job.run_here(*data.draw(drawn_overrides(case, PLANS[:6]), label="at first"))  # which may be refused, too
        others = data.draw(drawn_overrides(case, PLANS), label="then")
        query = data.draw(st.sampled_from([None, *changed(case)]), label="query")
        check_shown(job, *others, *([] if query is None else [f"query={query}"]))


def changed(case: JoinCase) -> list[str]:
    """Queries that the state serves, and such as it cannot serve."""
    served = [f"{case.query} AND A.v <> C.v", f"{case.query} AND B.v % 2 = 0", f"{case.query} "]
    served.append(case.query.replace(str(4 * SECOND), str(3 * SECOND)))
    refused = [case.query.replace(str(4 * SECOND), str(5 * SECOND)), case.query.replace("A.v AS a", "A.ts AS a")]
    return [*served, *served, *refused, text() if case is not CHAIN else text("A.x")]


@st.composite
def drawn_overrides(draw: st.DrawFn, case: JoinCase, plans: Sequence[str]) -> list[str]:
    found = [f"adapt.plan={draw(st.sampled_from(plans))}"]
    found += [f"run.slots={draw(st.integers(1, 3))}"] if draw(st.booleans()) else []
    found += [f"run.groups={draw(st.sampled_from([2, 6, 7]))}"] if draw(st.booleans()) else []
    found += [f"run.memory={draw(st.sampled_from([2000, 100000]))}"] if draw(st.integers(0, 3)) == 3 else []
    found += [f"adapt.allocate={draw(st.sampled_from(['fewest', 'even']))}"] if draw(st.booleans()) else []
    found += (
        [f"adapt.ring={draw(st.sampled_from(['psp', 'atr', 'ctr']))}"] if case is APART and draw(st.booleans()) else []
    )
    found += ["stats.rates={ A = 10, B = 1000, C = 1 }"] if draw(st.booleans()) else []
    return [*found, *draw(st.lists(st.sampled_from(STEPS), max_size=1))]


STEPS = [
    f"adapt.force=[{{at_batch = {batch}, {step}}}]"
    for batch in (1, 4)
    for step in (
        "slots = 3",
        "slots = 9",
        'move = ["J1:0->1"]',
        'move = ["J2:*->0"]',
        'spill = ["J1:5"]',
        'cut = ["J1:1"]',
        'plan = "(A (B C))", by = "parallel-track"',
        'plan = "auto"',
    )
]


def check_shown(job: JudgedJob, *overrides: str) -> None:
    sets = [part for override in overrides for part in ("--set", override)]
    code, out, err = job.call("explain", "job.toml", "--json", *sets)
    as_text = job.call("explain", "job.toml", *sets)
    against = job.call("explain", "job.toml", "--against", "ck", "--json", *sets)
    ran = job.call("run", "job.toml", "--json", *sets)
    if ran[0] == 2:
        assert (code, out) == (2, "")
        assert as_text == ran
        assert errors(err) == errors(ran[2])
        return
    assert (ran[0], code, as_text[0]) == (0, 0, 0)
    start, *events = map(json.loads, ran[1].splitlines())
    shown = json.loads(out)
    assert (start["plan"], start["placement"], start["change"]) == (shown["plan"], shown["placement"], shown["change"])
    assert as_text[1].startswith(f"plan {start['plan'].split(',')[0]}: ")
    if against[0] == 0:  # there is a checkpoint
        told = json.loads(against[1])
        assert (told["plan"], told["slots"][1]) == (start["plan"], start["placement"]["slots"])
        assert told["query_changes"] == ([] if start["change"] is None else start["change"]["query_changes"])
    decided = {entry["decision"] for event in events for entry in event["decisions"]}
    if not any(event["event"] == "batch" for event in events):  # then nothing but the start has changed anything
        state = job.state()
        assert state["plan"] == start["plan"]
        assert decided & PLACING or state["placement"] == start["placement"]


def errors(err: str) -> list[str]:
    return [line for line in err.splitlines() if not line.startswith("note: ")]


# --- a query over Arrow data -----------------------------------------------------------------------------------------

ROWS = pa.table({"k": [1, 2], "v": [3, 4], "ts": [0, 1_000_000]})
LOCAL = "SELECT A.k FROM A, B, C WHERE A.k = B.k AND B.v = C.v"


@contract_settings(24)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "plan": st.sampled_from(PLANS),
            "slots": st.integers(0, 4),
            "groups": st.sampled_from([2, 300]),
            "memory": st.sampled_from(["1MB", 10, "much"]),
            "balance": st.sampled_from(["off", "time", "odd"]),
            "ring": st.sampled_from(["auto", "ctr", "round"]),
            "batch_rows": st.just(1),
        },
    ),
    st.booleans(),
)
def test_queries_in_this_process(options: dict[str, Any], apart: bool) -> None:
    query = wm.sql(LOCAL.replace("B.v = C.v", "B.v <> C.v") if apart else LOCAL, A=ROWS, B=ROWS, C=ROWS)
    shown: str | WatersmeetError
    events: list[dict[str, Any]] = []
    try:
        shown = query.explain(**options)
    except WatersmeetError as error:
        shown = error
    try:
        query.run(report=events.append, **options)
    except WatersmeetError as error:
        assert str(error) == str(shown)
        return
    start = events[0]
    assert isinstance(shown, str)
    assert shown.startswith(f"plan {start['plan']}: ")
    slots = start["placement"]["slots"]
    assert f"where ({slots} slot{'s' if slots > 1 else ''}):" in shown
