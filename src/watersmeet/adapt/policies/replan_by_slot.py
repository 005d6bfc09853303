"""Re-plans slot by slot: each slot's groups get the tree that is best by what that slot has measured ([Zhu06], 23.1).

Local re-optimisation, where all inputs share a key. Every `every` batches the policy asks, for each slot, what the
trees that its groups run cost by the slot's own rates and selectivities, and what the best one would. Groups whose tree
costs more by `LEAST` go over to the best one, if what is saved until the next look is worth more than the change. So do
groups that were moved to the slot and run the tree of another.

Departures: the paper re-optimises a machine when its own statistics have changed; here every look compares, as a search
over the few inputs of such a query takes little. One slot at a time where the way takes more than one step.

Known limit: what a slot has measured is of the groups that it has had, and fades as `Measured` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from watersmeet.adapt.decisions.change_plan import ChangePlan
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.migrate.moving_state import MovingState
from watersmeet.adapt.policies.migrate.road import corrected
from watersmeet.adapt.trials import PRICE, came_true, cools_down, trial_of
from watersmeet.model.ids import Partitioning
from watersmeet.model.origin import ByPolicy, Origin
from watersmeet.model.routing import Groups, count_groups, groups_text, intersect_ranges, union_ranges
from watersmeet.model.statistics import FADE, Measured
from watersmeet.optimize.cost import cores_text
from watersmeet.plan.layout import lay_out
from watersmeet.plan.layout.shapes import common_key
from watersmeet.settings.replan import ReplanSettings
from watersmeet.settings.words import AUTO
from watersmeet.state.learned import PLAN, Trial
from watersmeet.state.taken import PLAN as TAKEN_PLAN

LEAST = 0.1  # of what a tree costs, that the best one must save


@dataclass(frozen=True)
class ReplanBySlot:
    settings: ReplanSettings

    origin: ClassVar[Origin] = ByPolicy("replan-by-slot")
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.PLANS})

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        if not outlook.next_batch or outlook.next_batch % self.settings.every or outlook.migrating:
            return
        key = common_key([outlook.plan])
        if key is None:
            return
        for slot, measured in enumerate(outlook.learned.by_slot[: outlook.placement.slots]):
            if measured.seconds > 0 and all(measured.rows.get(alias) for alias in outlook.plan.query.aliases):
                yield from self._reviewed(outlook, slot, measured, key)

    def _reviewed(self, outlook: Outlook, slot: int, measured: Measured, key: Partitioning) -> Iterator[Decision]:
        """What came of the last change for a slot, and another one: at once if that did not pay."""
        review, change = _review(outlook, slot, measured, key), None
        failed = review is not None and not review.paid
        if failed or not cools_down(outlook.learned, PLAN, outlook.next_batch, self.settings.every, _part(slot)):
            change = self._of_slot(outlook, slot, measured, key)
        if change is not None:
            yield replace(change, review=review)
        elif review is not None:
            yield review

    def _of_slot(self, outlook: Outlook, slot: int, measured: Measured, key: Partitioning) -> ChangePlan | None:
        owned = outlook.placement.of(key).owned_by(slot)
        worse: list[Groups] = []
        saved = standing = cpu = 0.0
        best = None
        for track in outlook.shapes:
            held = owned if track.within is None else intersect_ranges(owned, track.within)
            if not held:
                continue
            found = outlook.compare(track.spec, measured)
            best = found.best
            if not found.same and found.saved >= LEAST * found.standing.cost.cpu:
                share = count_groups(held) / count_groups(owned)
                worse.append(held)
                saved, standing = saved + share * found.saved, standing + share * found.standing.cost.cpu
                cpu += share * best.cost.cpu
        within = union_ranges(group for held in worse for group in held)
        if best is None or not within or _tried(outlook, within):
            return None
        if common_key([outlook.plan, lay_out(outlook.plan.query, best.tree)]) is None:
            return None
        life = self.settings.every * measured.seconds * (1 - FADE)
        rows = outlook.input_rows * count_groups(within) / outlook.placement.of(key).groups
        price = corrected(outlook.learned.roads, MovingState.name, MovingState().price(int(rows), None, cpu))
        if saved * life < price:
            return None
        reason = (
            f"by what slot {slot} has measured, groups {groups_text(within)} cost {cores_text(standing)} cores, and "
            f"{best.tree} would cost {cores_text(cpu)}; that saves {saved * life:.3g} s until the next look, "
            f"and takes {price:.3g} s"
        )
        batch, tree, spec = outlook.next_batch, str(best.tree), outlook.spec_of(best)
        trial = Trial(PLAN, tree, batch, {"cpu": standing}, {"cpu": cpu}, _part(slot), notes={PRICE: price})
        return ChangePlan(tree, AUTO, batch, reason, trial, within=within, spec=spec)


def _part(slot: int) -> str:
    """What a trial of a slot's plan is about."""
    return f"slot {slot}"


def _review(outlook: Outlook, slot: int, measured: Measured, key: Partitioning) -> Review | None:
    """What came of the last change of a slot's plan, at the first look after it, where its groups have it still."""
    trial = trial_of(outlook.learned, PLAN, _part(slot))
    if trial is None or trial.at_batch >= outlook.next_batch:
        return None
    owned = outlook.placement.of(key).owned_by(slot)
    cpu = 0.0
    for track in outlook.shapes:
        held = owned if track.within is None else intersect_ranges(owned, track.within)
        if held and str(track.spec.tree) == trial.what:
            share = count_groups(held) / count_groups(owned)
            cpu += share * outlook.price_of(track.spec, measured).cost.cpu
    if not cpu:
        return None
    before, expected = trial.before["cpu"], trial.expected["cpu"]
    reason = f"slot {slot}: {before:.3g} cores before, {expected:.3g} predicted, {cpu:.3g} by now"
    found = {"cpu": cpu}
    return Review(trial, found, came_true(trial, found), reason)


def _tried(outlook: Outlook, within: Groups) -> bool:
    """Whether these groups were to have another plan before this very batch already: once is enough."""
    return any(
        entry.kind == TAKEN_PLAN and entry.before_batch == outlook.next_batch and entry.groups in (None, within)
        for entry in outlook.taken
    )
