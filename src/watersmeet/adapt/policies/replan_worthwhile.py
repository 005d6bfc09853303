"""Changes the plan where that pays: looks from time to time, asks the optimiser if there is reason to, and compares.

The gain is the CPU that the best plan saves, over the time that the figures are expected to stay as they are: as long
again as they have been so, or as they did on average, and at least until the next look. The price is what the road
takes: the rows that are to be taken in, by what earlier changes really took for a row, or, for a parallel track, the
second plan for a window. A plan is changed if the gain is above the price, and `LEAST` of what the plan costs now; or
if the plan does not fit the limits any more, and another does. Probe orders alone cost next to nothing to change.

A better plan that does not pay yet is thought of at the next look again: figures that have lasted longer by then are
expected to last longer, and nothing else need have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from watersmeet.adapt.decisions import ChangePlan, Decision, LookAtPlan, MigrationAbandoned, ReviewPlan
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.migrate import find_road
from watersmeet.adapt.policies.replan.looks import Look, figures_of
from watersmeet.adapt.policies.replan.triggers import TRIGGERS
from watersmeet.adapt.settings import ReplanSettings
from watersmeet.model.statistics import FADE
from watersmeet.optimize.reconsider import Comparison

LEAST = 0.1


@dataclass(frozen=True)
class ReplanWorthwhile:
    settings: ReplanSettings
    budget_bytes: int | None

    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.PLANS})

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        before = Look.from_json(outlook.learned.look)
        batch = outlook.next_batch
        waits = batch if before is None else batch - before.batch
        if waits < self.settings.every or outlook.migrating or outlook.measured.seconds <= 0:
            return
        now = Look(batch, figures_of(outlook.measured), outlook.state_bytes, outlook.owing, 0)
        if before is not None:
            now = now.after(before, max(self.settings.threshold, LEAST))
        reviews = list(self._review(outlook))
        yield from reviews
        why = self._why(before, now)
        if why is not None and not _tried(outlook):
            if (found := self._worthwhile(outlook, now, why)) is not None:
                yield found
            now = replace(now, waits=found is None and _saves(outlook.comparison))
        # What the optimiser was asked with is what the next look compares with.
        look = now.to_json() if why is not None or before is None else _with_figures(now, before.figures)
        yield LookAtPlan(look, bool(reviews))

    def _why(self, before: Look | None, now: Look) -> str | None:
        if before is None:
            return "a first look at what was measured"
        why = TRIGGERS[self.settings.trigger](self.settings, before, now, self.budget_bytes)
        return "what did not pay before" if why is None and before.waits else why

    def _worthwhile(self, outlook: Outlook, now: Look, why: str) -> ChangePlan | None:
        found = outlook.comparison
        if find_road(self.settings.by).refuse(outlook.plan.query) is not None and not found.same:
            return None
        saved, standing = found.saved, found.standing.cost.cpu
        needed = not found.standing.qualifies and found.best.qualifies
        if not needed and not _saves(found):
            return None
        life = max(self.settings.every, now.life) * outlook.measured.seconds * (1 - FADE)
        price = self._price(outlook, found)
        if not needed and saved * life < price:
            return None
        figures = {
            "cpu": standing,
            "cpu_predicted": found.best.cost.cpu,
            "memory": found.standing.cost.memory,
            "memory_predicted": found.best.cost.memory,
            "life_seconds": life,
            "price_seconds": price,
            "batch_seconds": outlook.learned.batch_seconds,
        }
        reason = (
            f"{why}: it costs {standing:.3g} cores, and {found.best.tree} would cost {found.best.cost.cpu:.3g}; "
            f"that saves {saved * life:.3g} s in the {life:.3g} s expected, and takes {price:.3g} s to change"
        )
        return ChangePlan(str(found.best.tree), self.settings.by, now.batch, reason, figures)

    def _price(self, outlook: Outlook, found: Comparison) -> float:
        """Seconds of CPU that the road is expected to take."""
        if found.same:
            return 0.0
        road = find_road(self.settings.by)
        return road.price(
            outlook.input_rows, outlook.learned.rows_a_second, outlook.window_seconds, found.best.cost.cpu
        )

    def _review(self, outlook: Outlook) -> Iterator[ReviewPlan]:
        """How a change of the plan turned out, at the first look after it."""
        told = outlook.learned.review
        if told is not None and outlook.next_batch - told["batch"] >= self.settings.every:
            cpu = outlook.comparison.standing.cost.cpu
            figures = {**told, "cpu_found": cpu, "batch_seconds_found": outlook.learned.batch_seconds}
            reason = f"{told['cpu']:.3g} cores before, {told['cpu_predicted']:.3g} predicted, {cpu:.3g} by now"
            yield ReviewPlan(outlook.tree, reason, figures)


def _saves(found: Comparison) -> bool:
    """Whether the best plan is better by enough to think of it."""
    return found.saved >= LEAST * found.standing.cost.cpu


def _with_figures(now: Look, figures: Mapping[str, float]) -> dict[str, Any]:
    return {**now.to_json(), "figures": figures}


def _tried(outlook: Outlook) -> bool:
    """Whether the plan was changed before this very batch, or was to be: once is enough.

    What the optimiser finds and what then stands need not cost the same, where probe orders are chosen anew.
    """
    kinds = (ChangePlan.__name__, MigrationAbandoned.__name__)
    return any(
        entry["decision"] in kinds and entry.get("before_batch") == outlook.next_batch for entry in outlook.decisions
    )
