"""Emit what is owed, in rounds: the policies say what is merged, and are asked again until nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watersmeet.run.steps import Ask, RunRound, Settle, Taken, take

if TYPE_CHECKING:
    from watersmeet.run.session import Session


@take.register(Settle)
def _(step: Settle, session: Session[Any]) -> Taken:
    work = RunRound(step.ending, session.clock.now(), then=() if step.once else (step,))
    if session.manifest.last_batch < 0:
        return Taken((work,))  # nothing is owed of no rows but their total
    return Taken((Ask(step.ending.moment, step.within, work),))
