"""That a forced step cannot be taken."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Draft, carry_out


@dataclass(frozen=True)
class CannotForce(Decision):
    """Groups that a forced step names are not there: the plan is another than was thought of when the run began."""

    before_batch: int
    reason: str


@carry_out.register
def _(decision: CannotForce, draft: Draft) -> None:
    draft.record(decision.to_json())
