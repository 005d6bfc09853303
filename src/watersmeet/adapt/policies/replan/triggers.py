"""When a look at the figures is reason enough to ask for a better plan (DISS 3039-3087), one function each.

- *data-driven*: the figures have changed by more than a threshold since the optimiser was asked; with a threshold of 0
  every look is reason enough, which is the paper's aggressive form.
- *memory-driven*: the state is near its budget, or beyond it, and rises steadily, or that of the fullest slot does near
  the limit of slots; or what a source holds that no batch has read does. A surge, which comes at once, is left to
  spills (`recent.py`).
- *refined*: either of these, or the groups that owe results become steadily more: a backlog inside the plan, which
  reaches the sources only later.

What a trigger says is the beginning of the reason of a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from watersmeet.adapt.policies.replan.looks import change
from watersmeet.adapt.policies.replan.recent import Recent, rises_steadily
from watersmeet.settings.replan import ReplanSettings
from watersmeet.state.learned import Look

NEAR = 0.8  # of the budget
SLOT = "slot_bytes"  # of `Recent`: the state of the slot that has most, where slots have a limit
STATE, OWED, BACKLOG = "state_bytes", "owed_groups", "backlog "  # of `Recent`; the last with the stream and the unit
UNITS = ("rows", "bytes", "files")  # that a backlog is counted in, the best first


@dataclass(frozen=True)
class Signs:
    """What triggers go by: the look before and this one, and what came after each of the last batches."""

    settings: ReplanSettings
    before: Look
    now: Look
    recent: Recent = field(default_factory=dict)
    budget_bytes: int | None = None
    slot_bytes: int | None = None  # that each slot may have


Trigger = Callable[[Signs], str | None]  # why, or None


def data_driven(signs: Signs) -> str | None:
    found = change(signs.before.asked, signs.now.figures)
    return f"figures changed by {found:.0%}" if found >= signs.settings.threshold else None


def state_grows(signs: Signs) -> str | None:
    for name, limit, what, whole in (
        (STATE, signs.budget_bytes, "the state", "the budget"),
        (SLOT, signs.slot_bytes, "the state of a slot", "what it may have"),
    ):
        sizes = signs.recent.get(name, ())
        if limit is not None and sizes and sizes[-1] >= NEAR * limit and rises_steadily(sizes):
            return f"{what} has come to {sizes[-1] / limit:.0%} of {whole}, and grows steadily"
    return None


def sources_get_ahead(signs: Signs) -> str | None:
    for name, left in signs.recent.items():
        if name.startswith(BACKLOG) and rises_steadily(left):
            stream, unit = name[len(BACKLOG) :].rsplit(" ", 1)
            return f'stream "{stream}" gets ahead: {left[-1]:,.0f} {unit} wait, and {left[0]:,.0f} did before'
    return None


def owed_grows(signs: Signs) -> str | None:
    owed = signs.recent.get(OWED, ())
    if not rises_steadily(owed):
        return None
    return f"{owed[-1]:,.0f} groups owe results, and {owed[0]:,.0f} did before"


def memory_driven(signs: Signs) -> str | None:
    return state_grows(signs) or sources_get_ahead(signs)


def refined(signs: Signs) -> str | None:
    return data_driven(signs) or memory_driven(signs) or owed_grows(signs)


TRIGGERS: dict[str, Trigger] = {
    "data-driven": data_driven,
    "memory-driven": memory_driven,
    "refined": refined,
}


def signals(
    state_bytes: int, owed_groups: int, backlogs: Mapping[str, Mapping[str, int]], slot_bytes: int | None = None
) -> dict[str, float]:
    """What is known after a batch, as `recent.then` takes it.

    >>> signals(10, 0, {"A": {"files": 3, "bytes": 700}})
    {'state_bytes': 10.0, 'owed_groups': 0.0, 'backlog A bytes': 700.0}
    """
    found = {STATE: float(state_bytes), OWED: float(owed_groups)}
    if slot_bytes is not None:
        found[SLOT] = float(slot_bytes)
    for stream, left in backlogs.items():
        unit = next((unit for unit in UNITS if unit in left), None)
        if unit is not None:
            found[f"{BACKLOG}{stream} {unit}"] = float(left[unit])
    return found
