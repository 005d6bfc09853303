"""How many slots a ring lies over: as many as it takes for its slowest one to be done in time, and not many more. Pure.

Whoever probes a ring visits all of its slots. A longer ring shares the comparisons out over more of them, and has every
probe and every partial result copied to one more; a shorter one leaves slots to others. By what slots take,
`scale/seconds.py` decides for a ring as it does for all slots, with these in the place of its figures:

- what is to be done in time is the work of the slowest slot of the ring on the ring alone, which is all that its length
  changes: a batch also reads, waits and commits;
- it comes near that time at `NEAR` of it, the share of a core that `optimize/allocate.py` takes to be a full one;
- what came to it is counted in comparisons, not in rows: twice the rows in twice as full windows are four times the
  work.

What came of another length is told some batches later. A longer ring that has not brought half of what was expected,
since what is sent to all slots is not shared by them, is made as short as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from watersmeet.adapt.policies.scale import seconds
from watersmeet.adapt.policies.scale.seconds import Bounds, Load, Verdict, Wanted
from watersmeet.model.slot_figures import Slots
from watersmeet.optimize.allocate import FULL
from watersmeet.state.learned import Lesson, Trial

NEAR = FULL
WORK, PAIRS = "ring_seconds", "ring_pairs"  # of `replan/recent.py`
RING_SERIES = (WORK, PAIRS)


def ring_signals(slots: Slots, pairs: float, by_cpu: bool) -> dict[str, float]:
    """What is known after a batch in which the slots of a ring did this, as `recent.then` takes it."""
    took = (slot.cpu_seconds if by_cpu else slot.seconds for slot in slots)
    return {WORK: max(took, default=0.0), PAIRS: pairs}


def ring_load(slots: int, recent: Mapping[str, Sequence[float]]) -> Load | None:
    """What is known since the ring is as long as it is; None where that is too little."""
    return seconds.load_of(slots, recent, (WORK, WORK, PAIRS))


def limits(most: int, may_take: float, lesson: Lesson | None) -> Bounds:
    """From one slot to `most`, where a batch may take so long."""
    return seconds.bounds_after(1, most, NEAR * may_take, lesson)


def wanted(load: Load, bounds: Bounds) -> Wanted | None:
    """Another length, if there is reason for one."""
    found = seconds.wanted(load, bounds)
    if found is None:
        return None
    reason = (
        f"the slowest slot of the ring takes {load.seconds:.3g} s of a batch, and {bounds.seconds:.3g} s would be near "
        f"what it may take; over {found.slots} slots {found.expected['seconds']:.3g} s are expected"
    )
    return replace(found, reason=reason)


def judge(load: Load, trial: Trial) -> Verdict:
    """How the last length turned out."""
    found = seconds.judge(load, trial)
    before, expected = trial.before["seconds"], trial.expected["seconds"]
    reason = f"the slowest slot took {before:.3g} s, {expected:.3g} s were expected, and it takes {load.seconds:.3g} s"
    return replace(found, reason=reason if found.back_to is None else f"{reason}: a longer ring is of no use")
