"""Changes the plan where that pays: looks from time to time, asks for a better one if there is reason to, and compares.

Who is asked: first the library, for a plan that served well under figures like these. Then the optimiser, whose search
may take `quota` of the time from one look to the next; where it would take longer, for what a quick search finds.

The gain is the CPU that the best plan saves, over the time that the figures are expected to stay as they are: as long
again as they have been so, or as they did on average, and at least until the next look. The price is what the road
takes: by the model, the rows that are to be taken in, or, for a parallel track, the second plan for a window; corrected
by what earlier changes really took. A plan is changed if the gain is above the price, and `LEAST` of what the plan
costs now; or if the plan does not fit the limits any more, and another does. Probe orders alone cost next to nothing to
change.

A better plan that does not pay yet is thought of at the next look again: figures that have lasted longer by then are
expected to last longer, and nothing else need have changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from watersmeet.adapt.decisions.change_plan import ChangePlan, LookAtPlan
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.migrate import find_road
from watersmeet.adapt.policies.migrate.road import corrected
from watersmeet.adapt.policies.replan.library import (
    Library,
    Served,
    forget,
    library_json,
    nearest,
    read_library,
    remember,
)
from watersmeet.adapt.policies.replan.looks import after
from watersmeet.adapt.policies.replan.triggers import TRIGGERS, Signs
from watersmeet.adapt.trials import PRICE, PRICE_BY_MODEL, PRICE_FOUND, came_true, cools_down, trial_of
from watersmeet.model.origin import ByPolicy, Origin
from watersmeet.model.statistics import FADE
from watersmeet.optimize.cost import cores_text, price_text
from watersmeet.optimize.reconsider import EFFORT_SECONDS, Comparison, guess_seconds
from watersmeet.settings.replan import ReplanSettings
from watersmeet.state.learned import PLAN, Look, Trial

LEAST = 0.1
FURTHEST = 0.4  # that figures of the library may be from those that there are
ALWAYS_SECONDS = 0.02  # that a search may take however short batches are, unless there are to be none
DOUBT = 0.9  # what is left of what a search is thought to take, each time that none is made for it
DID_NOT_PAY = "the last change did not pay"
SEARCH, QUICK_SEARCH, LIBRARY = "search", "quick search", "library"


@dataclass(frozen=True)
class Answer:
    """What was found, by whom, a word about that for people, and what a full search is thought to take from now on."""

    found: Comparison
    by: str
    word: str = ""
    search_seconds: float | None = None


@dataclass(frozen=True)
class ReplanWorthwhile:
    settings: ReplanSettings
    budget_bytes: int | None
    slot_bytes: int | None = None

    origin: ClassVar[Origin] = ByPolicy("replan-worthwhile")
    moments: ClassVar[frozenset[Moment]] = frozenset({Moment.BEFORE_BATCH})
    needs: ClassVar[frozenset[Signal]] = frozenset({Signal.PLANS})

    @property
    def _alike(self) -> float:
        """Figures that differ by less are the same ones."""
        return max(self.settings.threshold, LEAST)

    @property
    def _near(self) -> float:
        """What a plan has served under that differs by less tells of these figures too, however high the threshold."""
        return min(self._alike, FURTHEST)

    def propose(self, outlook: Outlook) -> Iterator[Decision]:
        before = outlook.learned.look
        batch = outlook.next_batch
        waits = batch if before is None else batch - before.batch
        if waits < self.settings.every or outlook.migrating or outlook.measured.seconds <= 0:
            return
        if len(outlook.plan.query.aliases) == 1:  # there is nothing to join
            return
        if len(outlook.plan.shapes) > 1:  # what was measured of all groups says nothing of a shape that some have
            return
        now = Look(batch, outlook.plan_figures, 0)
        if before is not None:
            now = after(before, now, self._alike)
        library = known = read_library(outlook.library)
        review = self._review(outlook)
        if review is not None:
            library = self._with_review(library, review, now)
        failed = review is not None and not review.paid
        why = self._why(outlook, before, now)
        if failed and why is None:
            why = DID_NOT_PAY
        waits = not failed and cools_down(outlook.learned, PLAN, batch, self.settings.every)
        answer = None if why is None or waits else self._ask(outlook, now, library)
        decided = None
        if why is not None and waits:
            now = replace(now, waits=True)
        if answer is not None and why is not None:
            decided = self._worthwhile(outlook, now, why, answer)
            if decided is None and why != DID_NOT_PAY and answer.by != LIBRARY and not _saves(answer.found):
                library = remember(library, self._served(outlook, now), self._near)
            now = replace(now, waits=decided is None and _saves(answer.found))
        if decided is not None:
            yield replace(decided, review=review)
        elif review is not None:
            yield review
        yield LookAtPlan(
            now if why is None else replace(now, asked=now.figures),
            None if library == known else library_json(library),
            None if answer is None else answer.search_seconds,
        )

    def _why(self, outlook: Outlook, before: Look | None, now: Look) -> str | None:
        if before is None:
            return "a first look at what was measured"
        signs = Signs(self.settings, before, now, outlook.learned.recent, self.budget_bytes, self.slot_bytes)
        why = TRIGGERS[self.settings.trigger](signs)
        return "what did not pay before" if why is None and before.waits else why

    # --- who is asked ------------------------------------------------------------------------------------------------

    def _ask(self, outlook: Outlook, now: Look, library: Library) -> Answer | None:
        standing = outlook.standing
        for distance, served in nearest(library, now.figures, self._near):
            plan = standing if served.plan == outlook.tree else outlook.price(served.plan)
            if plan is not None and plan.qualifies:
                word = f"which served well under figures like these ({distance:.0%} apart)"
                return Answer(Comparison(standing, plan), LIBRARY, word)
        if not self.settings.quota:
            return None
        between = self.settings.every * outlook.learned.batch_seconds
        allowed = max(ALWAYS_SECONDS, self.settings.quota * between)
        expected = outlook.learned.search_seconds or guess_seconds(outlook.plan.query)
        if expected <= allowed:
            best, took = outlook.search()
            return Answer(Comparison(standing, best), SEARCH, "", took or None)
        best, _ = outlook.search(int(allowed / EFFORT_SECONDS))
        word = f"by a quick search, as a full one takes {expected:.2g} s and the quota is {allowed:.2g} s"
        return Answer(Comparison(standing, best), QUICK_SEARCH, word, expected * DOUBT)

    # --- whether it pays ---------------------------------------------------------------------------------------------

    def _worthwhile(self, outlook: Outlook, now: Look, why: str, answer: Answer) -> ChangePlan | None:
        found = answer.found
        if find_road(self.settings.by).refuse(outlook.plan.query) is not None and not found.same:
            return None
        saved, standing = found.saved, found.standing.cost.cpu
        needed = not found.standing.qualifies and found.best.qualifies
        if not needed and not _saves(found):
            return None
        life = max(self.settings.every, now.life) * outlook.measured.seconds * (1 - FADE)
        model, price = self._price(outlook, found)
        if not needed and saved * life < price:
            return None
        tree, spec = str(found.best.tree), outlook.spec_of(found.best)
        costs = {"cpu": standing, "memory": found.standing.cost.memory}
        before = {**costs, "batch_seconds": outlook.learned.batch_seconds}
        expected = {"cpu": found.best.cost.cpu, "memory": found.best.cost.memory}
        notes = {"life_seconds": life, PRICE_BY_MODEL: model, PRICE: price}
        trial = Trial(PLAN, tree, now.batch, before, expected, notes=notes)
        word = f", {answer.word}," if answer.word else ""
        if needed:
            now_costs, then_costs = (price_text(p.cost.cpu, p.cost.memory) for p in (found.standing, found.best))
            reason = (
                f"{why}: it comes to {now_costs}, beyond the limits, and {found.best.tree}{word} to {then_costs}; "
                f"it takes {price:.3g} s to change"
            )
        else:
            reason = (
                f"{why}: it costs {cores_text(standing)} cores, and {found.best.tree}{word} would cost "
                f"{cores_text(found.best.cost.cpu)}; that saves {saved * life:.3g} s in the {life:.3g} s expected, "
                f"and takes {price:.3g} s to change"
            )
        return ChangePlan(tree, self.settings.by, now.batch, reason, trial, answer.by, spec=spec)

    def _price(self, outlook: Outlook, found: Comparison) -> tuple[float, float]:
        """Seconds that the road is expected to take, by the model alone and by what earlier changes took."""
        if found.same:
            return 0.0, 0.0
        road = find_road(self.settings.by)
        model = road.price(outlook.input_rows, outlook.window_seconds, found.best.cost.cpu)
        return model, corrected(outlook.learned.roads, road.name, model)

    # --- how it turned out -------------------------------------------------------------------------------------------

    def _review(self, outlook: Outlook) -> Review | None:
        """How a change of the plan turned out, at the first look after it; None where another plan stands by now."""
        trial = trial_of(outlook.learned, PLAN)
        if trial is None or trial.what != outlook.tree or outlook.next_batch - trial.at_batch < self.settings.every:
            return None
        found = {"cpu": outlook.standing.cost.cpu, "batch_seconds": outlook.learned.batch_seconds}
        before, expected = trial.before["cpu"], trial.expected["cpu"]
        reason = f"{before:.3g} cores before, {expected:.3g} predicted, {found['cpu']:.3g} by now"
        if PRICE_FOUND in trial.notes:
            price, took = trial.notes[PRICE], trial.notes[PRICE_FOUND]
            reason += f"; the change was to take {price:.3g} s, and took {took:.3g}"
        return Review(trial, found, came_true(trial, found), reason)

    def _with_review(self, library: Library, review: Review, now: Look) -> Library:
        """A plan whose cost came nearer to what was predicted than to what there was has served well."""
        if review.paid:
            served = Served(review.trial.what, now.figures, review.found["cpu"], now.batch)
            return remember(library, served, self._near)
        return forget(library, review.trial.what, now.figures, self._near)

    def _served(self, outlook: Outlook, now: Look) -> Served:
        return Served(outlook.tree, now.figures, outlook.standing.cost.cpu, now.batch)


def _saves(found: Comparison) -> bool:
    """Whether the best plan is better by enough to think of it."""
    return found.saved >= LEAST * found.standing.cost.cpu
