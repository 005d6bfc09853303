"""The contract, checked on drawn cases: whatever the plan, slots, batches and restarts, the answer is the oracle's.

`WATERSMEET_EXAMPLES=5000 pytest tests/test_contract.py` draws thousands of new cases; without it they stay the same.
"""

from __future__ import annotations

import functools
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import watersmeet as wm
from drawn_plans import all_plans, place_filters, placed_plans
from strategies import RANDOMS, Case, cases, contract_settings, counted
from watersmeet.adapt.decisions.cut_group import CutGroup
from watersmeet.adapt.policies.unite_parts import UniteColdParts
from watersmeet.errors import RingError
from watersmeet.kernel.hashing import hash_keys
from watersmeet.kernel.step import join_step
from watersmeet.lang.binder import bind
from watersmeet.model.ids import Label, OperatorName, Partitioning
from watersmeet.model.schema import normal_schema
from watersmeet.model.slices import BY_TIME
from watersmeet.model.streams import AHEAD_OF, Stream
from watersmeet.plan.query import Query
from watersmeet.plan.ring_ways import ATR, PSP, UNSAID, RingWay
from watersmeet.plan.spreading import dealt_inputs
from watersmeet.runtime.clock import VirtualClock
from watersmeet.runtime.cutting import count_cut
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource
from watersmeet.runtime.opening import OpenRun, open_run
from watersmeet.runtime.outputs import Outputs
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.forced_step import ForcedStep
from watersmeet.settings.plan import PlanSettings
from watersmeet.settings.ring import RELOCATE, RING_ADAPT, RingSettings
from watersmeet.settings.run import RunSettings
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.manifest import Delivery
from watersmeet.state.output_names import stamp_of
from watersmeet.state.table import AtVersion
from watersmeet.state.updates import SetPlacement

pytestmark = pytest.mark.slow


@contextmanager
def tuned(case: Case) -> Iterator[None]:
    """Small merges, chunks, pieces and looks ahead, so that a few rows go through all of the machinery."""
    step = functools.partial(join_step, chunk_rows=case.chunk_rows)
    with (
        mock.patch("watersmeet.state.compaction.FANOUT", case.fanout),
        mock.patch("watersmeet.runtime.stages.task.LOOK_AHEAD_ROWS", case.fanout),
        mock.patch("watersmeet.kernel.join_pieces.join_step", step),
        mock.patch("watersmeet.kernel.pieces.PIECE_BYTES", case.piece_bytes),
        mock.patch("watersmeet.kernel.pieces.JOINED_BYTES", case.piece_bytes),
        mock.patch("watersmeet.kernel.step.BENCH_BYTES", 2 * case.piece_bytes),
        mock.patch("watersmeet.kernel.scan.BLOCK_BYTES", 2 * case.piece_bytes),
        mock.patch("watersmeet.kernel.scan.CHUNK_PAIRS", case.chunk_rows),
        mock.patch("watersmeet.kernel.orders.SORT_CANDIDATES", case.fanout - 2),
        mock.patch("watersmeet.runtime.spool.KEPT_BYTES", 4 * case.piece_bytes),
        mock.patch("watersmeet.adapt.in_force.UniteColdParts", functools.partial(UniteColdParts, case.fanout)),
    ):
        yield


def run(case: Case, **options: Any) -> tuple[Counter[tuple[Any, ...]], dict[str, Any]]:
    """The answer of the local runtime through the public API, and the end event."""
    note(case.text)
    streams = {name: stream.record_batches() for name, stream in case.streams.items()}
    query = wm.sql(case.text, lateness=case.lateness, max_ahead=case.max_ahead, ahead_of=case.ahead_of, **streams)
    events: list[dict[str, Any]] = []
    clock = VirtualClock(case.clock_us)
    settings = {"plan": case.plan, "slots": case.slots, "groups": case.groups, "clock": clock} | options
    with tuned(case):
        table = query.run(report=events.append, **settings)
    return counted(table), events[-1]


@contract_settings(49)
@given(cases())
def test_the_answer_is_the_oracles(case: Case) -> None:
    expected = case.answer()
    rows, end = run(case)
    assert rows == expected.rows
    assert end["rows_late"] == expected.rows_late
    assert end["rows_out"] == expected.rows.total()
    assert end["rows_in"] == sum(len(rows) for batch in case.batches for rows in batch.values())


@contract_settings(27)
@given(cases(largest=4, apart=True))
def test_inputs_that_no_equality_connects_are_joined_all_the_same(case: Case) -> None:
    expected = case.answer()
    rows, end = run(case)
    assert rows == expected.rows
    assert end["rows_late"] == expected.rows_late


@contract_settings(6)
@given(cases(largest=3, apart=True), RANDOMS)
def test_all_plans_with_rings_give_the_same_answer(case: Case, random: Random) -> None:
    expected = case.answer().rows
    plans = placed_plans(case, random)
    for plan in random.sample(plans, min(len(plans), 6)):
        assert run(case, plan=plan)[0] == expected, plan


@contract_settings(22)
@given(cases(ahead=AHEAD_OF))
def test_rows_that_are_ahead_are_neither_joined_nor_seen(case: Case) -> None:
    expected = case.answer()
    rows, end = run(case)
    assert rows == expected.rows
    assert (end["rows_late"], end["rows_ahead"]) == (expected.rows_late, expected.rows_ahead)


@contract_settings(13)
@given(cases(largest=4), RANDOMS)
def test_all_plans_give_the_same_answer(case: Case, random: Random) -> None:
    expected = case.answer().rows
    plans = placed_plans(case, random)
    for plan in random.sample(plans, min(len(plans), 8)):  # four inputs on one key have 26
        assert run(case, plan=plan)[0] == expected, plan


def collide(columns: Sequence[pa.Array]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return hash_keys(columns) % np.uint64(3)


def collide_apart(columns: Sequence[pa.Array]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return (hash_keys(columns) % np.uint64(3)) * np.uint64(0x5555555555555555)  # in different groups, too


@contract_settings(22)
@given(cases(), st.sampled_from([collide, collide_apart]))
def test_hashes_that_collide_change_nothing(case: Case, hashing: Any) -> None:
    with (
        mock.patch("watersmeet.kernel.prepare.hash_keys", hashing),
        mock.patch("watersmeet.plan.layout.fragment.has_exact_hash", lambda keys: False),
        mock.patch("watersmeet.plan.layout.hop.has_exact_hash", lambda keys: False),
    ):
        rows, _ = run(case)
    assert rows == case.answer().rows


class Lost(Exception):
    """The run ended between a commit and its delivery."""


@contract_settings(18)
@given(cases(largest=4, ahead=AHEAD_OF), st.data())
def test_restarts_between_batches_change_nothing(case: Case, data: st.DataObject) -> None:
    expected = case.answer()
    with tempfile.TemporaryDirectory() as folder, tuned(case):
        rows, apart = run_with_restarts(case, Path(folder), data)
    assert rows == expected.rows
    written: dict[str, Counter[Any]] = {}
    for name, late in expected.late.items():
        written.setdefault(name, Counter()).update(
            _frozen({**row, "_reason": "no time" if row["ts"] is None else "late"}) for row in late
        )
        written[name].update(_frozen({**row, "_reason": "ahead"}) for row in expected.ahead[name])
    assert apart == {name: rows for name, rows in written.items() if rows}


DrawMemory = Callable[[Case, Query, int, int, st.DataObject], AdaptSettings]


def draw_budget(case: Case, query: Query, batch: int, slots: int, data: st.DataObject) -> AdaptSettings:
    return AdaptSettings(None if case.apart else data.draw(st.sampled_from([None, None, 1, 500]), label="budget"))


def draw_ring(case: Case, query: Query, batch: int, slots: int, data: st.DataObject) -> AdaptSettings:
    """Any length of a ring at the start, any policy, and before any batch another length, other slots and moves."""
    ring = RingSettings(
        data.draw(st.integers(0, slots), label="ring slots"),
        data.draw(st.sampled_from(RING_ADAPT), label="ring policy"),
        data.draw(st.sampled_from(RELOCATE), label="relocate"),
        seconds=1e-6,
    )
    if len(query.parts) == 1:
        return AdaptSettings(ring=ring)
    there = data.draw(st.sampled_from([None, *range(1, min(4, case.groups) + 1)]), label="other slots")
    now = there or slots
    moved = data.draw(st.sets(st.integers(0, case.groups - 1), max_size=3), label="moved")
    moves = tuple((Label(BY_TIME), (group, group + 1), data.draw(st.integers(0, now - 1))) for group in sorted(moved))
    forced = data.draw(st.sampled_from([None, *range(1, now + 1)]), label="forced ring")
    step = ForcedStep(batch, slots=there, move=moves, ring=forced)
    balance = BalanceSettings(data.draw(st.sampled_from(["off", "time"]), label="balance"), every=1, by_cpu=True)
    return AdaptSettings(ring=ring, forced=(step,), balance=balance)


@contract_settings(6)
@given(cases(largest=3, apart=True), st.data())
def test_rings_of_any_length_over_restarts_change_nothing(case: Case, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder, tuned(case):
        rows, _ = run_with_restarts(case, Path(folder), data, draw_ring)
    assert rows == case.answer().rows


def run_with_restarts(
    case: Case,
    folder: Path,
    data: st.DataObject,
    draw_memory: DrawMemory = draw_budget,
    ways: Sequence[RingWay] = (UNSAID,),
) -> tuple[Counter[tuple[Any, ...]], dict[str, Counter[Any]]]:
    """What comes of `restart_often`: the answer, and the rows that were set aside."""
    tables, late = restart_often(case, folder, data, [], draw_memory, ways)
    return counted(pa.concat_tables(tables)), late


def restart_often(
    case: Case,
    folder: Path,
    data: st.DataObject,
    ended: list[int],
    draw_memory: DrawMemory = draw_budget,
    ways: Sequence[RingWay] = (UNSAID,),
    others: Sequence[str] = (),
) -> tuple[list[pa.Table], dict[str, Counter[Any]]]:
    """Every batch in a run of its own, on one checkpoint, each with its own plan, slots, groups, owners and budget.

    The result files in the order of their deliveries. The batches that were the last of a run which came to its end
    are added to `ended`. Rings are spread in one of these ways; as they are, where a plan does not allow it. Plans are
    all that there are, and `others`.
    """
    note(case.text)
    streams = {
        name: Stream(
            name,
            normal_schema(stream.schema),
            "ts",
            case.lateness[name],
            case.max_ahead.get(name),
            case.ahead_of.get(name),
        )
        for name, stream in case.streams.items()
    }
    query = bind(case.text, streams)
    wanted = Outputs.of("parquet", str(folder / "out"), str(folder / "late"))
    last, plans = len(case.batches), all_plans(case)
    for number, batch in enumerate([*case.batches, {}]):  # the last run delivers and emits what may be left
        slots = data.draw(st.integers(1, min(4, case.groups)), label="slots")
        memory = draw_memory(case, query, number, slots, data)
        way = data.draw(st.sampled_from([way for way in ways if (way.copies or 0) <= slots]), label="ring")
        if case.apart and way.name == ATR:  # segments can be spilled
            memory = replace(memory, budget_bytes=data.draw(st.sampled_from([None, None, 1, 500]), label="budget"))
        lost = number < last and data.draw(st.integers(0, 3), label="lost") == 0
        plan = data.draw(st.sampled_from([case.plan, case.plan, *plans, *others]), label="plan")
        if plan in plans:
            above = data.draw(RANDOMS, label="above")
            plan = place_filters(plan, case.conditions, above.randrange)
        settings = RunSettings(PlanSettings(plan, ring=way), memory, slots, case.groups)
        try:
            run = open_run(query, settings, CheckpointFolders(str(folder / "ck")), wanted)
        except RingError:
            settings = replace(settings, plan=PlanSettings(plan, ring=RingWay(PSP)), memory=AdaptSettings())
            run = open_run(query, settings, CheckpointFolders(str(folder / "ck")), wanted)
        outputs = run.outputs
        place_anywhere(run, slots, data)
        session = LocalRun(
            run.plan,
            run.checkpoint,
            outputs.writer,
            controller=run.controller,
            late=outputs.late_waiting,
            deliver=lose_after(run.checkpoint.manifest.last_batch, outputs) if lost else outputs.deliver,
            clock=VirtualClock(case.clock_us),
            make_spec=run.make_spec,
            start=run.start,
        )
        sources = {
            name: RowsSource(streams[name], [pa.RecordBatch.from_pylist(rows, schema=case.streams[name].schema)])
            for name, rows in batch.items()
        }
        batches = session.batches(sources)
        try:
            if number == last or data.draw(st.booleans(), label="to its end"):
                deque(batches, maxlen=0)
                ended.append(number)
            else:
                next(batches, None)  # as if it were killed: what is owed is left to the next run
        except Lost:
            pass
        finally:
            session.close()
            run.close()
    late: dict[str, Counter[Any]] = {}
    for file in (folder / "late").glob("late-*.parquet"):
        name = next(n for n in streams if file.name.startswith(f"late-{n}-"))
        late.setdefault(name, Counter()).update(map(_frozen, pq.read_table(file).to_pylist()))
    files = sorted((folder / "out").glob("*.parquet"), key=lambda file: stamp_of(file.name).delivery)
    return [pq.read_table(file, schema=query.output_schema) for file in files], late


def place_anywhere(run: OpenRun, slots: int, data: st.DataObject) -> None:
    """Any cuts, owners and spreads for the groups of some partitionings; the others are placed evenly."""
    owners = {}
    for name in sorted({state.partitioning for state in run.plan.states.values()}):
        if data.draw(st.booleans(), label=f"cut {name}"):
            cut_anywhere(run, name, data)
        if data.draw(st.booleans(), label=f"place {name}"):
            groups = run.checkpoint.manifest.placement.of(name).groups
            owned = st.lists(st.integers(0, slots - 1), min_size=groups, max_size=groups)
            owners[name] = tuple(data.draw(owned, label=name))
    manifest = run.checkpoint.manifest
    placement = replace(manifest.placement, slots=slots, owners=owners, spreads={})
    for name in sorted({node.partitioning for node in run.plan.operators.values()}) if slots > 1 else ():
        for group in data.draw(st.sets(st.integers(0, placement.of(name).groups - 1), max_size=3), label="spread"):
            over = data.draw(st.sets(st.integers(0, slots - 1), min_size=2), label="over")
            alias = data.draw(st.sampled_from(dealt_inputs(run.plan, name)), label="dealing")
            placement = placement.spread(name, group, alias, over)
    run.checkpoint.commit([AtVersion(manifest.version)], [SetPlacement(placement)])


def cut_anywhere(run: OpenRun, name: Partitioning, data: st.DataObject) -> None:
    manifest = run.checkpoint.manifest
    routing = manifest.placement.of(name)
    group = data.draw(st.integers(0, routing.groups - 1), label=f"group of {name}")
    low, high = routing.hash_range((group, group + 1))
    if high - low > 1:
        at_hash = data.draw(st.integers(low + 1, high - 1), label="at")
        cut = CutGroup(OperatorName("any"), group, name, at_hash, manifest.last_batch + 1, "drawn")
        update = count_cut(cut, run.plan, manifest, run.checkpoint.segments)
        run.checkpoint.commit([AtVersion(manifest.version)], [update])


def lose_after(batch: int, outputs: Outputs) -> Callable[[Delivery], None]:
    """Deliver what was committed up to `batch`, and die before anything later is delivered."""

    def deliver(delivery: Delivery) -> None:
        if delivery.batch > batch:
            raise Lost
        outputs.deliver(delivery)

    return deliver


def _frozen(row: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(row.items()))
