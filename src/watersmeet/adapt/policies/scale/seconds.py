"""`seconds`: as many slots as it takes for batches to be done within a given time, and not many more. Ours. Pure.

A batch takes what its slowest slot computes, which more slots share, and the rest, which they do not: reading, waiting
and the commit. So with m slots in the place of n it is expected to take

    T - c + c n/m        T: seconds of a batch, c: of CPU of the slot that has most

- *More* where batches take longer than they may: most of the last ones and the middle one, and not less and less, which
  is a surge on its way out. As few as bring it down to `AIM` of the time, if they are expected to save `LEAST` at all:
  where it is not the slots' work that takes the time, more of them are no remedy.
- *Fewer* where all of the last batches, which must be many, are expected to take `LOW` of the time at most with fewer,
  and take no more and more.
- The two are apart: what more slots were just enough for is above `LOW` with one slot less, and after fewer it takes
  another two thirds of load before there are more. So nothing goes back and forth under one load.
- *What came of it* is told once some batches are known. Where more slots have not brought half of what was expected of
  them, by rows that came, more are of no use: it goes back, and does not try again before there is `RETRY` of the rows
  of then.

Figures are those since slots, or the plan, were changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from watersmeet.adapt.trials import came_true, cools_down, lesson_of
from watersmeet.model.slot_figures import Slots
from watersmeet.state.learned import Figures, Learned, Lesson, Trial

FEWEST = 5  # batches that more slots can be decided by, and that a change is judged by
ENOUGH = 10  # that fewer slots can be; of `replan/recent.py` 12 are kept
AIM = 0.8
LOW = 0.6
LEAST = 0.1
MOST_OF = 0.8  # of the last batches
RETRY = 1.5
STEADY = 0.85  # of the first ones, what the last ones have at least where nothing falls
BATCH, WORK, ROWS = "batch_seconds", "slot_cpu_seconds", "slot_rows"  # of `replan/recent.py`
SERIES = (BATCH, WORK, ROWS)


@dataclass(frozen=True)
class Load:
    """The last batches, the newest last: what each took, of CPU for the slot that had most to do, and its rows."""

    slots: int
    batches: tuple[float, ...]
    work: tuple[float, ...]
    rows: tuple[float, ...]

    @property
    def seconds(self) -> float:
        return median(self.batches[-FEWEST:])

    @property
    def cpu(self) -> float:
        return median(self.work[-FEWEST:])

    def each(self, slots: int) -> list[float]:
        """The seconds of each batch with other slots."""
        pairs = zip(self.batches, self.work, strict=True)
        return [took - work + work * self.slots / slots for took, work in pairs]

    def expected(self, slots: int) -> float:
        """Of the middle one of the last."""
        return median(self.each(slots)[-FEWEST:])


@dataclass(frozen=True)
class Wanted:
    """Another number of slots, and why; with what was measured and is expected."""

    slots: int
    reason: str
    before: Figures
    expected: Figures

    def trial(self, kind: str, what: str, from_slots: int, at_batch: int) -> Trial:
        return Trial(kind, what, at_batch, self.before, self.expected, from_size=from_slots, size=self.slots)


@dataclass(frozen=True)
class Bounds:
    least: int
    most: int
    seconds: float  # that a batch may take
    no_use: int | None = None  # so many slots, or more, have been found to be of no use
    no_use_rows: float = 0.0  # with so many rows in a batch

    def highest(self, load: Load) -> int:
        """The most slots that may be tried."""
        if self.no_use is None or median(load.rows[-FEWEST:]) >= RETRY * self.no_use_rows:
            return self.most
        return min(self.most, max(self.no_use - 1, load.slots))


def signals(seconds: float, slots: Slots) -> dict[str, float]:
    """What is known after a batch, as `recent.then` takes it."""
    work = max((slot.cpu_seconds for slot in slots), default=0.0)
    return {BATCH: seconds, WORK: work, ROWS: sum(slot.rows_in for slot in slots)}


def load_of(slots: int, recent: Mapping[str, Sequence[float]], names: tuple[str, str, str] = SERIES) -> Load | None:
    """What is known since slots were changed; None where that is too little."""
    series = [tuple(recent.get(name, ())) for name in names]
    count = min(map(len, series))
    return Load(slots, *(entries[-count:] for entries in series)) if count >= FEWEST else None


def wanted(load: Load, bounds: Bounds) -> Wanted | None:
    """Another number of slots, if there is reason for one."""
    if not bounds.least <= load.slots <= bounds.most:
        slots = max(bounds.least, min(bounds.most, load.slots))
        return _wanted(load, slots, f"there are to be {bounds.least} to {bounds.most}")
    return _more(load, bounds) or _fewer(load, bounds)


def _more(load: Load, bounds: Bounds) -> Wanted | None:
    last = load.batches[-FEWEST:]
    if sum(took > bounds.seconds for took in last) < MOST_OF * len(last) or load.seconds <= bounds.seconds:
        return None
    if _falls(last):
        return None
    numbers = range(load.slots + 1, bounds.highest(load) + 1)
    enough = (slots for slots in numbers if load.expected(slots) <= AIM * bounds.seconds)
    slots = next(enough, numbers[-1] if numbers else None)
    if slots is None or load.seconds - load.expected(slots) < LEAST * load.seconds:
        return None
    why = f"a batch takes {load.seconds:.3g} s, {load.cpu:.3g} s of that in the slot that has most to do"
    return _wanted(load, slots, f"{why}, and may take {bounds.seconds:.3g} s")


def _fewer(load: Load, bounds: Bounds) -> Wanted | None:
    last = load.batches[-ENOUGH:]
    if len(last) < ENOUGH or _falls(last[::-1]):
        return None
    for slots in range(bounds.least, load.slots):
        if max(load.each(slots)[-ENOUGH:]) <= LOW * bounds.seconds:
            why = f"a batch takes {load.seconds:.3g} s, and may take {bounds.seconds:.3g} s"
            return _wanted(load, slots, f"{why}: these are enough")
    return None


def _falls(series: Sequence[float]) -> bool:
    """Whether it becomes less and less, or has come down.

    >>> _falls([5, 4, 3, 2, 1]), _falls([5, 5, 5, 5, 5]), _falls([5, 6, 5, 6, 5]), _falls([1, 2, 3, 4, 5])
    (True, False, False, False)
    """
    if all(after <= before for before, after in itertools.pairwise(series)) and series[-1] < STEADY * series[0]:
        return True
    third = len(series) // 3
    return sum(series[-third:]) < STEADY * sum(series[:third])


def _wanted(load: Load, slots: int, why: str) -> Wanted:
    expected = load.expected(slots)
    rows = median(load.rows[-FEWEST:])
    before = {"seconds": load.seconds, "cpu_seconds": load.cpu, "rows": rows}
    after = {"seconds": expected, "cpu_seconds": load.cpu * load.slots / slots}
    return Wanted(slots, f"seconds: {why}; with {slots} slots {expected:.3g} s are expected", before, after)


@dataclass(frozen=True)
class Verdict:
    """What came of a change, whether it paid, and, where more slots were of no use, how many it goes back to."""

    reason: str
    found: Figures
    paid: bool
    back_to: int | None = None

    @property
    def useless_load(self) -> float | None:
        """What came in a batch, where more slots are of no use for so much."""
        return None if self.back_to is None else self.found["rows"]


def judge(load: Load, trial: Trial, least: int = 1) -> Verdict:
    """How the last change turned out.

    More slots pay if the CPU of the slot that has most is nearer to what was expected of it, for the rows that came,
    and batches are not as slow as before. It goes back to `least` slots at the fewest: so many there are to be,
    whatever they are of use for.
    """
    before, expected, seconds = trial.before["seconds"], trial.expected["seconds"], load.seconds
    reason = f"a batch took {before:.3g} s, {expected:.3g} s were expected, and it takes {seconds:.3g} s"
    rows = median(load.rows[-FEWEST:])
    found = {"seconds": seconds, "cpu_seconds": load.cpu, "rows": rows}
    come = rows / trial.before["rows"] if trial.before["rows"] else 1.0
    paid = came_true(trial, {"cpu_seconds": load.cpu}, come)
    if trial.size < trial.from_size:
        return Verdict(reason, found, paid)
    paid = paid and seconds <= before * max(1.0, come) * (1 - LEAST / 2)
    back_to = max(trial.from_size, least)
    if not paid and back_to < trial.size:
        return Verdict(f"{reason}: more slots are of no use", found, paid, back_to)
    return Verdict(reason, found, paid)


def bounds_after(least: int, most: int, seconds: float, lesson: Lesson | None) -> Bounds:
    """Between so many slots, as far as more of them are not known to be of no use."""
    if lesson is None:
        return Bounds(least, most, seconds)
    return Bounds(least, most, seconds, lesson.useless_size, lesson.useless_load)


def too_soon(change: Wanted, load: Load, learned: Learned, kind: str, next_batch: int) -> bool:
    """Whether a change has to wait because such ones have not paid: more slots, or fewer, and not much more to do."""
    lesson = lesson_of(learned, kind)
    if lesson is None or not cools_down(learned, kind, next_batch, FEWEST):
        return False
    same_way = (change.slots > load.slots) == (lesson.trial.size > lesson.trial.from_size)
    return same_way and median(load.rows[-FEWEST:]) < RETRY * lesson.found["rows"]
