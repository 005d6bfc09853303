"""When a look at the figures is reason enough to ask the optimiser (DISS 3039-3087), one function each.

- *data-driven*: the figures have changed by more than a threshold since the optimiser was asked; with a threshold of 0
  every look is reason enough, which is the paper's aggressive form.
- *memory-driven*: the state is near its budget, or beyond it, and grows from look to look: a trend. A surge, which has
  gone by the next look, is left to spills.
- *refined*: either of these, or more and more groups owe results: a backlog inside the plan.
"""

from __future__ import annotations

from collections.abc import Callable

from watersmeet.adapt.policies.replan.looks import Look, change
from watersmeet.adapt.settings import ReplanSettings

NEAR = 0.8  # of the budget

Trigger = Callable[[ReplanSettings, Look, Look, int | None], str | None]  # settings, before, now, budget: why, or None


def data_driven(settings: ReplanSettings, before: Look, now: Look, budget_bytes: int | None) -> str | None:
    found = change(before.figures, now.figures)
    return f"figures changed by {found:.0%}" if found >= settings.threshold else None


def memory_driven(settings: ReplanSettings, before: Look, now: Look, budget_bytes: int | None) -> str | None:
    if budget_bytes is None or now.state_bytes <= before.state_bytes or before.state_bytes < NEAR * budget_bytes:
        return None
    return f"the state has come to {now.state_bytes / budget_bytes:.0%} of the budget, and grows"


def refined(settings: ReplanSettings, before: Look, now: Look, budget_bytes: int | None) -> str | None:
    found = data_driven(settings, before, now, budget_bytes) or memory_driven(settings, before, now, budget_bytes)
    if found is None and now.owed > before.owed > 0:
        return f"{now.owed:,} groups owe results, and {before.owed:,} did before"
    return found


TRIGGERS: dict[str, Trigger] = {
    "data-driven": data_driven,
    "memory-driven": memory_driven,
    "refined": refined,
}
