"""Cutting a group in two."""

from __future__ import annotations

from dataclasses import dataclass, replace

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Draft, carry_out
from watersmeet.model.ids import OperatorName, Partitioning
from watersmeet.state.taken import CUT, Taken


@dataclass(frozen=True)
class CutGroup(Decision):
    """Cut a group in two, the second of which begins at this hash: of this operator, and of all on its partitioning."""

    operator: OperatorName
    group: int
    partitioning: Partitioning
    at_hash: int
    before_batch: int
    reason: str


@carry_out.register
def _(decision: CutGroup, draft: Draft) -> None:
    """What the files hold on both sides is not in the manifest: the runtime counts, and makes the update."""
    batch, groups = decision.before_batch, ((decision.group, decision.group + 1),)
    draft.learned = replace(draft.learned, placed_before=batch)
    draft.work.append(decision)
    draft.record(decision.to_json(), Taken(CUT, batch, decision.origin, decision.operator, groups))
