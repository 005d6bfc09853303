"""How a change turned out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Draft, carry_out
from watersmeet.adapt.trials import figures_of, learn, lesson_of
from watersmeet.model.origin import origin_to_json
from watersmeet.state.learned import BALANCE, PLAN, RING, SLOTS, Figures, Trial

# As users know them. What spills and merges came to is learned, and not told: there may be one in every batch.
_NAMES: Mapping[str, str] = {PLAN: "ReviewPlan", SLOTS: "ReviewRescale", RING: "ReviewRing", BALANCE: "ReviewMoves"}


@dataclass(frozen=True)
class Review(Decision):
    """What a trial has come to. A decision that undoes the change, because it did not pay, carries its review."""

    trial: Trial
    found: Figures
    paid: bool
    reason: str
    useless_load: float | None = None  # the size that was tried is of no use where no more is to do in a batch

    @property
    def no_use(self) -> bool:
        return self.useless_load is not None

    def to_json(self) -> dict[str, Any]:
        plan = {"plan": self.trial.what} if self.trial.kind == PLAN else {}
        sized = {"no_use": self.no_use} if self.trial.kind in (SLOTS, RING) else {}
        told = {"reason": self.reason, "figures": figures_of(self.trial, self.found), **sized, "paid": self.paid}
        return {"decision": _NAMES[self.trial.kind], **plan, **told, "origin": origin_to_json(self.origin)}


@carry_out.register
def _(decision: Review, draft: Draft) -> None:
    trial = decision.trial
    draft.learned = learn(draft.learned, trial, decision.found, decision.paid, decision.useless_load)
    if trial.kind in _NAMES:
        told, lesson = decision.to_json(), lesson_of(draft.learned, trial.kind, trial.of)
        assert lesson is not None
        told["figures"]["in_vain"] = lesson.in_vain
        draft.record(told)
