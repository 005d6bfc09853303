"""Brings a checkpoint of format 2 up to date: its newest version becomes a snapshot of the present format.

Format 2 kept the shape of a plan as text, without probe orders and routes; knew operators by their place (`J1`) and
named states by what rows carry for lineage too; numbered the generations of each group by themselves, and counted the
closed ones; had one routing table, always even; and listed the results of the last batch alone, delivered or not.

What the text leaves open is found by trying: of the routes that a routed join may have, those whose states are the ones
that the checkpoint holds, no fewer and no more: one more would lack the rows that were read before. The last batch is
taken as undelivered, and delivered again: a delivery may be repeated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from watersmeet.errors import CheckpointError
from watersmeet.kernel.window import NEVER
from watersmeet.model.group_figures import GroupFigures, GroupObservation
from watersmeet.model.ids import LIVE, Generation, SegmentId, StateName
from watersmeet.model.placement import Placement
from watersmeet.model.routing import GroupRange, expand_ranges, intersect_ranges, union_ranges
from watersmeet.model.segments import Segment, ranges_from_json
from watersmeet.model.smoothing import find_smoothing
from watersmeet.model.statistics import Measured
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.layout.walk import state_name
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.spec import Orders, spec_of
from watersmeet.plan.tree import Join, joins_of, parse_tree, shared_keys
from watersmeet.state.files import Folder
from watersmeet.state.identity import digest_2, identify, refuse_other_query
from watersmeet.state.manifest import FORMAT, Manifest, QueryIdentity, Track
from watersmeet.state.sealed import seal
from watersmeet.state.table import corruption, decode, drop_before, table_folders, table_numbers, version_name

OLD = 2
MOST_ROUTES = 5_000  # ways to route joins that are tried


def upgrade_from_2(root: Folder, query: Query) -> None:
    """Add a snapshot of the present format after the newest version, and drop what came before it."""
    versions, snapshots = table_folders(root)
    old = _Replayed(versions, snapshots)
    asked = identify(query)
    kept = QueryIdentity(**old.data["query"])
    if kept.digest != digest_2(asked):
        refuse_other_query(kept, asked)
    plan = _find_plan(query, old)
    manifest = Manifest.from_json(old.present(plan))
    snapshots.put_if_absent(version_name(manifest.version), seal(manifest.to_json()))
    drop_before(manifest.version, versions)
    drop_before(manifest.version, snapshots)


def _find_plan(query: Query, old: _Replayed) -> PhysicalPlan:
    """The plan whose states are those that the checkpoint holds."""
    tree = parse_tree(old.data["plan"], query)
    assert isinstance(tree, Join)
    held = {segment.state for segment in old.segments.values()}
    for orders in itertools.islice(_all_orders(query, tree), MOST_ROUTES):
        spec = spec_of(query, tree, orders, old.data["traced"])
        plan = lay_out_spec(query, spec)
        if _has_states(plan, held):
            return plan
    raise CheckpointError(
        "the checkpoint holds the states of more than one plan",
        detail=f"Format {OLD} did not keep the routes of {tree}, and no routes have exactly its states.",
        hint="Start again with a new checkpoint.",
    )


def _has_states(plan: PhysicalPlan, held: set[StateName]) -> bool:
    """Whether the states with rows are those of the plan. Those of an input that no row has come from are without."""
    states = {old: plan.states[name] for old, name in _old_names(plan).items()}
    read = {state.aliases for old, state in states.items() if old in held}
    return held <= states.keys() and all(old in held or state.aliases not in read for old, state in states.items())


def _all_orders(query: Query, tree: Join) -> Iterator[Mapping[Join, Orders]]:
    """Every order in which joins whose inputs share no key can be routed; that of the text first."""
    routed = [j for j in joins_of(tree) if not shared_keys(query, tuple(c.aliases for c in j.children))]
    choices: list[list[Orders]] = []
    for join in routed:
        everyone = range(len(join.children))
        each = [list(itertools.permutations([j for j in everyone if j != i])) for i in everyone]
        choices.append(list(itertools.islice(itertools.product(*each), MOST_ROUTES)))
    for chosen in itertools.product(*choices):
        yield dict(zip(routed, chosen, strict=True))


def _old_names(plan: PhysicalPlan) -> dict[StateName, StateName]:
    """What format 2 called the states of a plan: what rows carry counted."""
    return {
        state_name(plan.query, state.aliases, state.key_fields, state.fields): state.name
        for state in plan.states.values()
    }


class _Replayed:
    """The newest version of format 2: its snapshot with the updates since, as they were meant then."""

    def __init__(self, versions: Folder, snapshots: Folder) -> None:
        numbers = table_numbers(versions)
        newest = max(table_numbers(snapshots))
        self.data, _ = decode(snapshots, version_name(newest), OLD, OLD)
        with corruption(snapshots, version_name(newest)):
            self.segments = {entry["id"]: _segment(entry) for entry in self.data["segments"]}
            self.figures = {
                operator: GroupFigures.from_json({**entry, "came": [0.0] * len(entry["local_output"])})
                for operator, entry in self.data["figures"].items()
            }
            self.closed: dict[str, dict[int, int]] = {
                operator: {int(group): count for group, count in groups.items()}
                for operator, groups in self.data["closed"].items()
            }
        for number in sorted(n for n in numbers if n > newest):
            content, _ = decode(versions, version_name(number), OLD, OLD)
            with corruption(versions, version_name(number)):
                self.data["version"] = number
                for update in content["updates"]:
                    getattr(self, f"_{update.pop('update')}")(**update)

    # --- what each update did --------------------------------------------------------------------------------------

    def _SetRouting(self, slots: int, owners: list[int]) -> None:
        self.data["routing"] = {"slots": slots, "owners": owners}

    def _AddSegment(self, segment: dict[str, Any]) -> None:
        self.segments[segment["id"]] = _segment(segment)

    def _ReleaseGroups(self, segment: SegmentId, groups: Any) -> None:
        rest = self.segments[segment].without(ranges_from_json(groups))
        if rest.groups:
            self.segments[segment] = rest
        else:
            del self.segments[segment]

    def _CloseGroups(self, operator: str, states: list[StateName], groups: Any) -> None:
        wanted = expand_ranges(ranges_from_json(groups))
        counts = self.closed.setdefault(operator, {})
        by_number: dict[int, list[GroupRange]] = {}
        for group in wanted:
            by_number.setdefault(counts.get(group, 0), []).append((group, group + 1))
        for segment in [s for s in self.segments.values() if s.state in states and s.active]:
            for number, part in by_number.items():
                self._turn_cold(segment.id, tuple(part), number)
        for group in wanted:
            counts[group] = counts.get(group, 0) + 1
        if operator in self.figures:
            self.figures[operator] = self.figures[operator].opened(wanted)

    def _CoolGroups(self, operator: str, segment: SegmentId, groups: Any) -> None:
        for group in expand_ranges(ranges_from_json(groups)):
            self._turn_cold(segment, ((group, group + 1),), self.closed.get(operator, {}).get(group, 0))

    def _turn_cold(self, name: SegmentId, groups: tuple[GroupRange, ...], number: int) -> None:
        if name in self.segments and intersect_ranges(self.segments[name].groups, groups):
            entry = self.segments[name]
            rest = entry.without(groups)
            del self.segments[name]
            if rest.live_rows:
                self.segments[name] = rest
            cold = entry.cold(groups, Generation(number))
            self.segments[cold.id] = cold

    def _AdvanceStream(self, stream: str, newest: int | None, rows: int, late: int, files: list[str]) -> None:
        nothing: dict[str, Any] = {"newest": None, "rows": 0, "late": 0, "files": []}
        entry = self.data["streams"].setdefault(stream, nothing)
        known = [time for time in (entry["newest"], newest) if time is not None]
        entry["newest"] = max(known, default=None)
        entry["rows"] += rows
        entry["late"] += late
        entry["files"] = [*entry["files"], *files]

    def _FinishBatch(self, batch: dict[str, Any]) -> None:
        self.data["batch"] = batch
        for name in ("rows_in", "rows_out", "rows_late"):
            self.data[name] += batch[name]

    def _ObserveBatch(self, measured: dict[str, Any]) -> None:
        before = Measured.from_json(self.data["measured"])
        self.data["measured"] = before.then(Measured.from_json(measured)).to_json()

    def _ObserveGroups(self, batch: int, upkeep: str, operators: dict[str, Any]) -> None:
        method = find_smoothing(upkeep)
        for operator, entry in operators.items():
            seen = GroupObservation.from_json(entry)
            before = self.figures.get(operator) or GroupFigures.nothing(len(seen.arrivals), len(seen.local))
            self.figures[operator] = before.then(batch, seen, method.then)

    def _RecordDecision(self, decision: dict[str, Any]) -> None:
        self.data["decisions"].append({**decision, "version": self.data["version"]})

    # --- as the present format has it ------------------------------------------------------------------------------

    def present(self, plan: PhysicalPlan) -> dict[str, Any]:
        """The manifest that follows this version, as JSON of the present format."""
        data, batch = self.data, self.data["batch"]
        plans = [entry["reason"] for entry in data["decisions"] if entry["decision"] == "plan"]
        routing = data["routing"]
        next_delivery = 0 if batch is None else batch["number"] + 1
        # A round had a number of its own kind, which no batch follows on; it gets the next one now.
        last = None if batch is None else next_delivery if batch["round"] else batch["number"]
        return {
            "format": FORMAT,
            "version": data["version"] + 1,
            "query": {**data["query"], "digest": identify(plan.query).digest},
            "tracks": [Track(plan.spec, plans[0] if plans else "").to_json()],
            "placement": Placement(routing["slots"], len(routing["owners"])).to_json(),
            "segments": [segment.to_json() for segment in self._segments(plan)],
            "streams": {name: _stream(entry) for name, entry in data["streams"].items()},
            "batch": None if batch is None else _record(batch),
            "undelivered": [] if batch is None else [_delivery(batch, last)],
            "next_delivery": next_delivery if last is None else max(next_delivery, last + 1),
            "rows_in": data["rows_in"],
            "rows_out": data["rows_out"],
            "rows_late": data["rows_late"],
            "decisions": [self._decision(plan, entry) for entry in data["decisions"]],
            "measured": data["measured"],
            "figures": {plan.labels[label]: entry.to_json() for label, entry in self.figures.items()},
            "learned": {"batch_seconds": 1.0, "come_true": {}, "expected": None},
        }

    def _segments(self, plan: PhysicalPlan) -> Iterable[Segment]:
        """With their new names, and rows that went cold with a live generation as such."""
        renamed = _old_names(plan)
        for segment in self.segments.values():
            state = renamed[segment.state]
            entry = Segment.from_json({**segment.to_json(), "state": state})
            if entry.active:
                yield entry
                continue
            label = plan.label(plan.operators_of[state][0])
            counts = self.closed.get(label, {})
            held = expand_ranges(entry.groups)
            live = union_ranges((g, g + 1) for g in held if counts.get(g, 0) == entry.generation)
            closed = union_ranges((g, g + 1) for g in held if counts.get(g, 0) != entry.generation)
            if live:
                yield entry.cold(live, LIVE)
            if closed:
                yield entry.cold(closed, entry.generation)

    def _decision(self, plan: PhysicalPlan, entry: Mapping[str, Any]) -> dict[str, Any]:
        def name(label: Any) -> str:
            return str(plan.labels.get(label, label))

        changed = dict(entry)
        if "groups" in changed:
            changed["groups"] = [[name(label), group] for label, group in changed["groups"]]
        if "operator" in changed:
            changed["operator"] = name(changed["operator"])
        if "waiting" in changed:
            changed["waiting"] = [name(label) for label in changed["waiting"]]
        return changed


def _segment(data: Mapping[str, Any]) -> Segment:
    new_names = {
        "born": "written",
        "origin": "part_of",
        "min_expiry": "min_expiry_us",
        "max_expiry": "max_expiry_us",
        "min_time": "min_time_us",
    }
    return Segment.from_json({new_names.get(key, key): value for key, value in data.items()})


def _stream(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "newest_us": data["newest"],
        "rows": data["rows"],
        "late": data["late"],
        "files": [[name, NEVER] for name in data["files"]],  # when they were modified is not known: never too old
        "file_lists": [],
        "ignored_before_us": 0,
    }


def _record(batch: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("number", "rows_in", "rows_out", "rows_late", "rows_merged", "round")
    return {**{name: batch[name] for name in kept}, "joins": batch["nodes"]}


def _delivery(batch: Mapping[str, Any], number: int | None) -> dict[str, Any]:
    return {
        "id": number,
        "batch": batch["number"],
        "round": batch["round"],
        "results": batch["results"],
        "late_files": batch["late_files"],
    }
