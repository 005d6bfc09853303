"""Groups that run trees of their own, row by row: the example that DISS part III works out, and what is refused."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from strategies import counted
from watersmeet.adapt.policies.check_forced import check_steps
from watersmeet.adapt.policies.migrate.balancing import choose_balance
from watersmeet.draw.explain import explain_json, explain_text
from watersmeet.errors import JobError
from watersmeet.kernel.hashing import hash_keys
from watersmeet.kernel.rows import hashes
from watersmeet.lang.binder import bind
from watersmeet.model.placement import Placement
from watersmeet.model.routing import Groups
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.tree import choose_tree
from watersmeet.run.ending import Ending
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource
from watersmeet.runtime.stages.slot_state import slices_of
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.settings.balance import BalanceSettings
from watersmeet.settings.forced_step import parse_groups, parse_step
from watersmeet.state.first_manifest import first_manifest
from watersmeet.state.manifest import Manifest

SCHEMA = pa.schema([("k", pa.int64()), ("y", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
SECOND = 1_000_000
LEFT, RIGHT, ALL = "((A B) C)", "(A (B C))", "(A B C)"
ONE_KEY = "A.k = B.k AND B.k = C.k"
GROUPS = 2
EVEN, ODD = ((0, 1),), ((1, 2),)  # the groups of keys that are even and odd, as keys are chosen here


def keys_by_remainder() -> list[list[int]]:
    """Keys of each of two groups, such that a group is the remainder of its keys by 2, as the example has it."""
    found = [key for key in range(200) if int(hash_keys([pa.array([key])])[0] >> np.uint64(63)) == key % 2]
    return [[key for key in found if key % 2 == group][:4] for group in range(GROUPS)]


KEYS = keys_by_remainder()


class ShapedRun:
    """A run in memory over two groups, that rows are given to by hand."""

    def __init__(self, where: str = ONE_KEY, plan: str = LEFT, window: str = "", streams: str = "ABC") -> None:
        self.streams = {name: Stream(name, SCHEMA, "ts", timedelta(0), time_unit="us") for name in streams}
        froms = ", ".join(f"{name}{window}" for name in streams)
        columns = ", ".join(f"{name}.v AS {name.lower()}" for name in streams)
        self.query = bind(f"SELECT {columns} FROM {froms} WHERE {where}", self.streams)
        laid_out = lay_out(self.query, choose_tree(self.query, plan))
        self._results = MemoryResults()
        self.run = LocalRun(laid_out, in_memory(self.query, laid_out.spec, Placement(2, GROUPS)), self._results)
        self._came: dict[str, list[tuple[int, int, float]]] = {name: [] for name in streams}

    def batch(self, second: float) -> Counter[tuple[Any, ...]]:
        """A row of each stream for every key; the results."""
        pulled = {}
        for name in self.streams:
            rows = [
                {"k": key, "y": key, "v": 1000 * int(second) + key, "ts": int(second * SECOND)}
                for key in itertools.chain(*KEYS)
            ]
            self._came[name] += [(row["k"], row["v"], second) for row in rows]
            source = RowsSource(self.streams[name], [pa.RecordBatch.from_pylist(rows, schema=SCHEMA)])
            pulled[name] = source.pull(set())
        self.run.driver.run_batch({name: rows for name, rows in pulled.items() if rows is not None})
        return self.results()

    def results(self) -> Counter[tuple[Any, ...]]:
        return counted(pa.Table.from_batches(self._results.pop(), schema=self.query.output_schema))

    def expected(self, width: float = 1e9) -> Counter[tuple[Any, ...]]:
        """All that must have come out by now."""
        found = Counter[tuple[Any, ...]]()
        for rows in itertools.product(*self._came.values()):
            if len({key for key, _, _ in rows}) == 1 and max(t for *_, t in rows) - min(t for *_, t in rows) < width:
                found[tuple(value for _, value, _ in rows)] += 1
        return found

    def change(self, plan: str, groups: Groups | None, by: str = "moving-state") -> Mapping[str, Any]:
        return self.run.driver.migrate(plan, by, "asked for by hand", groups)

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest

    def held(self, inputs: str) -> tuple[int, int]:
        """The rows of a state in both groups, as they are in the files."""
        found = [0, 0]
        for state in (state for state in self.run.plan.states.values() if "".join(state.aliases) == inputs):
            bounds = self.manifest.placement.of(state.partitioning).bounds
            for segment in self.manifest.segments.of_state(state.name):
                for piece in slices_of(self.run.checkpoint.segments.read(segment), segment, state, bounds):
                    for group in bounds.groups_of(hashes(piece.part)).tolist():
                        found[group] += 1
        return found[0], found[1]


def test_example_18_3_a_group_goes_to_a_shape_that_differs() -> None:
    """P_A2, P_B2 and P_C2 match and stay, P_AB2 has no use and goes, P_BC2 is made of P_B2 and P_C2, of that group."""
    run = ShapedRun()
    came = run.batch(0) + run.batch(1)
    rows, pairs = 2 * len(KEYS[0]), 4 * len(KEYS[0])
    assert [run.held(inputs) for inputs in ("A", "B", "C", "AB")] == [(rows, rows)] * 3 + [(pairs, pairs)]
    told = run.change(RIGHT, ODD)
    assert [run.held(inputs) for inputs in ("A", "B", "C")] == [(rows, rows)] * 3
    assert (run.held("AB"), run.held("BC")) == ((pairs, 0), (0, pairs))
    assert (told["decision"], told["from"], told["plan"], told["within"]) == ("ChangePlan", LEFT, RIGHT, [[1, 2]])
    assert (told["states_kept"], told["states_made"]) == (3, 1)
    assert not run.results(), "to make states emits nothing"
    assert run.manifest.plan == f"{LEFT}, and {RIGHT} in groups 1"
    came += run.batch(2)
    assert came == run.expected()
    assert run.held("AB")[1] == run.held("BC")[0] == 0, "each group keeps what its own shape does"


def test_groups_that_move_to_another_slot_take_their_shape_along() -> None:
    run = ShapedRun()
    came = run.batch(0)
    run.change(RIGHT, ODD)
    run.run.driver.rescale(1, "by hand")
    came += run.batch(1)
    run.run.driver.rescale(2, "by hand")
    came += run.batch(2)
    assert came == run.expected()


def test_a_plan_for_all_groups_unites_them() -> None:
    run = ShapedRun()
    came = run.batch(0)
    run.change(RIGHT, ODD)
    came += run.batch(1)
    told = run.change(ALL, None)
    assert told["from"] == f"{LEFT} and {RIGHT}"
    assert [track.within for track in run.manifest.shapes] == [None]
    assert run.manifest.plan == run.run.plan.tree == ALL
    assert (run.held("AB"), run.held("BC")) == ((0, 0), (0, 0))
    came += run.batch(2)
    assert came == run.expected()


def test_a_plan_with_other_groups_comes_after_one_shape_for_all() -> None:
    """Of A and B, two keys are alike: a tree that joins them first has groups of both."""
    where = f"{ONE_KEY} AND C.k = D.k AND A.y = B.y"
    run = ShapedRun(where, "(A B C D)", streams="ABCD")
    came = run.batch(0)
    run.change("(A B (C D))", ODD)
    came += run.batch(1)
    told = run.change("((A B) (C D))", None)
    assert (told["from"], told["plan"]) == ("(A B C D)", "((A B) (C D))")
    changes = [entry for entry in run.manifest.decisions if entry["decision"] == "ChangePlan"]
    assert [entry["plan"] for entry in changes] == ["(A B (C D))", "(A B C D)", "((A B) (C D))"]
    assert changes[1]["reason"] == "asked for by hand: ((A B) (C D)) has other groups"
    came += run.batch(2)
    assert came == run.expected()


def test_groups_that_come_to_the_same_tree_are_one_shape_again() -> None:
    run = ShapedRun()
    came = run.batch(0)
    run.change(RIGHT, ODD)
    run.change(RIGHT, EVEN)
    assert [(str(track.spec.tree), track.within) for track in run.manifest.shapes] == [(RIGHT, None)]
    run.change(LEFT, EVEN)
    run.change(LEFT, ((0, 2),))
    assert [(str(track.spec.tree), track.within) for track in run.manifest.shapes] == [(LEFT, None)]
    came += run.batch(1)
    assert came == run.expected()


def test_by_a_parallel_track_the_old_shape_answers_for_a_window() -> None:
    run = ShapedRun(window=" [RANGE 3 SECONDS]")
    came = run.batch(0) + run.batch(1)
    assert run.change(RIGHT, ODD, "parallel-track")["decision"] == "BeginMigration"
    switched = None
    for second in range(2, 8):
        came += run.batch(second)
        coming = run.manifest.warming_up
        if coming is None and switched is None:
            switched = second
        elif coming is not None:
            assert coming.within == ODD
            assert run.manifest.plan == LEFT
            assert run.held("AB")[1] > 0
    assert switched is not None
    assert 3 <= switched <= 6
    assert run.manifest.plan == f"{LEFT}, and {RIGHT} in groups 1"
    assert came == run.expected(width=3)


def test_what_other_groups_owe_is_left_alone() -> None:
    """What the groups owe that change is emitted before, and nothing else is."""
    run = ShapedRun()
    came = run.batch(0)
    labels = run.run.plan.labels
    from watersmeet.adapt.decisions.spill import SpillGroups

    run.run.driver.force([SpillGroups(tuple((name, group) for name in labels.values() for group in (0, 1)), "forced")])
    came += run.batch(1)
    assert run.run.controller.owes(run.manifest, EVEN) and run.run.controller.owes(run.manifest, ODD)
    run.change(RIGHT, ODD)
    came += run.results()
    assert run.run.controller.owes(run.manifest, EVEN)
    assert not run.run.controller.owes(run.manifest, ODD)
    came += run.batch(2)
    run.run.driver.drain(Ending.CLOSED)
    came += run.results()
    assert came == run.expected()


def test_labels_are_of_one_operator_each() -> None:
    run = ShapedRun()
    run.batch(0)
    run.change(RIGHT, ODD)
    plan = run.run.plan
    assert [(node.label, node.tree) for node in plan.operators.values()] == [
        ("J1", "(A B)"),
        ("J2", LEFT),
        ("J3", "(B C)"),
        ("J4", RIGHT),
    ]
    assert [plan.within[plan.labels[label]] for label in plan.labels] == [EVEN, EVEN, ODD, ODD]


def test_explain_shows_each_shape() -> None:
    run = ShapedRun()
    run.batch(0)
    run.change(RIGHT, ODD)
    text = explain_text(run.run.plan, "by hand")
    assert f"groups 0 run {LEFT}:" in text
    assert f"groups 1 run {RIGHT}:" in text
    assert [stage["groups"] for stage in explain_json(run.run.plan, "")["stages"]] == ["0", "1"]


def test_a_manifest_with_shapes_is_read_back() -> None:
    run = ShapedRun()
    run.batch(0)
    run.change(RIGHT, ODD)
    again = Manifest.from_json(run.manifest.to_json())
    assert again.tracks == run.manifest.tracks
    assert Manifest.from_json(ShapedRun().manifest.to_json()).tracks[0].within is None


REFUSED = {
    "groups that are not there": (ONE_KEY, LEFT, RIGHT, ((1, 3),), "moving-state", "there are no groups 1-2"),
    "no groups": (ONE_KEY, LEFT, RIGHT, (), "moving-state", "no groups are named"),
    "an unknown way": (ONE_KEY, LEFT, RIGHT, ODD, "magic", 'unknown way to change the plan "magic"'),
    "a way that waits for ever": (
        *(ONE_KEY, LEFT, RIGHT, ODD, "parallel-track"),
        "the plan of this query cannot be changed by parallel-track",
    ),
    "inputs that share no key": (
        *("A.k = B.k AND B.y = C.y", LEFT, RIGHT, ODD, "moving-state"),
        "groups of this query cannot have a plan of their own",
    ),
    "a tree on more than the key that all share": (
        *(f"{ONE_KEY} AND A.y = B.y", ALL, LEFT, ODD, "moving-state"),
        "groups of this query cannot have a plan of their own",
    ),
}


@pytest.mark.parametrize(("where", "plan", "new", "groups", "by", "error"), REFUSED.values(), ids=REFUSED)
def test_refused(where: str, plan: str, new: str, groups: Groups, by: str, error: str) -> None:
    run = ShapedRun(where, plan)
    came = run.batch(0)
    with pytest.raises(JobError) as caught:
        run.change(new, groups, by)
    assert caught.value.primary == error
    assert run.manifest.plan == plan
    came += run.batch(1)
    assert came == run.expected()


@pytest.mark.parametrize("value", ["", "1-", "a", "3-1", 7, "1,,2"])
def test_groups_that_cannot_be_read(value: Any) -> None:
    with pytest.raises(JobError) as caught:
        parse_groups(value, '"groups"')
    assert caught.value.primary == f'"groups" is {value!r}'


FORCED = {
    "groups without a plan": ([{"groups": "0", "spill_share": 0.5}], '"groups" in [[adapt.force]] goes with "plan"'),
    "groups that are not there": ([{"plan": RIGHT, "groups": "2"}], "there are no groups 2"),
    "two plans for one group": (
        [{"plan": RIGHT, "groups": "0-1"}, {"plan": ALL, "groups": "1"}],
        "[[adapt.force]] asks for two plans before batch 3",
    ),
    "a group of another shape": (
        [{"plan": RIGHT, "groups": "1"}, {"spill": ["J1:1"]}],
        '[[adapt.force]] names "J1:1", which the plan does not have',
    ),
}


@pytest.mark.parametrize(("steps", "error"), FORCED.values(), ids=FORCED)
def test_forced_steps_that_are_refused(steps: list[dict[str, Any]], error: str) -> None:
    run = ShapedRun()
    with pytest.raises(JobError) as caught:
        forced = tuple(parse_step({"at_batch": 3, **step}) for step in steps if "plan" in step or "groups" in step)
        forced += tuple(parse_step({"at_batch": 4, **step}) for step in steps if "spill" in step)
        manifest = first_manifest(run.query, run.run.plan.spec, Placement(2, GROUPS))
        check_steps(AdaptSettings(forced=forced), run.run.plan, manifest)
    assert caught.value.primary == error


def test_forced_steps_with_shapes_that_are_taken() -> None:
    run = ShapedRun()
    steps = [{"plan": RIGHT, "groups": "1"}, {"plan": ALL, "groups": "0"}]
    forced = tuple(parse_step({"at_batch": 3, **step}) for step in steps)
    later = parse_step({"at_batch": 4, "spill": ["J1:1", "J3:0"]})
    manifest = first_manifest(run.query, run.run.plan.spec, Placement(2, GROUPS))
    check_steps(AdaptSettings(forced=(*forced, later)), run.run.plan, manifest)


BALANCED = {
    "moving state, where a window brings as much as there is": (" [RANGE 3 SECONDS]", 100.0, 100.0, "moving-state"),
    "a parallel track, where rates have fallen": (" [RANGE 3 SECONDS]", 100.0, 20.0, "parallel-track"),
    "moving state, where rows never expire": ("", 100.0, 0.0, "moving-state"),
}


@pytest.mark.parametrize(("window", "held", "coming", "road"), BALANCED.values(), ids=BALANCED)
def test_the_way_to_another_shape(window: str, held: float, coming: float, road: str) -> None:
    assert choose_balance(ShapedRun(window=window).query, held, coming).name == road


def test_an_unknown_way_to_balance() -> None:
    with pytest.raises(JobError) as caught:
        BalanceSettings(by="moving-stat")
    assert (caught.value.primary, caught.value.hint) == (
        'unknown balance_by "moving-stat"',
        'Did you mean "moving-state"?',
    )
