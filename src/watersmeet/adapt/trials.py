"""Trials: what a change is expected to bring is written down, compared with what came, and remembered. Pure.

1. A decision that predicts something opens a trial (`open_trial`).
2. The policy that made it measures again, some batches later, and says whether it paid. Figures that come nearer to
   what was expected than to what was before have (`came_true`).
3. What came is a lesson (`learn`), for plans, slots, rings, moves, spills and merges alike. It is in the manifest, and
   `watersmeet state show` lists it.
4. After each trial in a row that did not pay, the next one of its kind waits twice as long, up to a bound
   (`cools_down`). Spills and merges do not wait: the budget and the windows say when they are due.

A trial whose figures cannot be compared any more, since something else was changed, is closed without a lesson. What
undoes a change is the end of its trial, and no trial itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from watersmeet.state.learned import MERGE, PLAN, Figures, Learned, Lesson, Trial

# Of a change of the plan: what it was to take, by the model alone and as corrected, and what it took.
PRICE_BY_MODEL, PRICE, PRICE_FOUND = "price_by_model", "price_seconds", "price_found"
MOST_WAITS = 3  # times that the wait for the next trial is doubled
NOISE = 0.1  # of a figure that was to stay as it is
_SUFFIX: Mapping[str, str] = {PLAN: "predicted"}  # of what was expected, among the figures that people read


def trial_of(learned: Learned, kind: str, of: str = "") -> Trial | None:
    return next((trial for trial in learned.trials if (trial.kind, trial.of) == (kind, of)), None)


def lesson_of(learned: Learned, kind: str, of: str = "") -> Lesson | None:
    return next((lesson for lesson in learned.lessons if (lesson.trial.kind, lesson.trial.of) == (kind, of)), None)


def open_trial(learned: Learned, trial: Trial | None) -> Learned:
    """With one more trial, in the place of one of its kind that was not reviewed."""
    if trial is None:
        return learned
    others = [entry for entry in learned.trials if (entry.kind, entry.of) != (trial.kind, trial.of)]
    return replace(learned, trials=(*others, trial))


def close_trials(learned: Learned, *kinds: str) -> Learned:
    """What was expected by these trials can be compared no more."""
    return replace(learned, trials=tuple(trial for trial in learned.trials if trial.kind not in kinds))


def forget_lessons(learned: Learned, *kinds: str) -> Learned:
    """What these kinds of trials have shown does not hold any more."""
    return replace(learned, lessons=tuple(lesson for lesson in learned.lessons if lesson.trial.kind not in kinds))


def learn(learned: Learned, trial: Trial, found: Figures, paid: bool, useless_load: float | None = None) -> Learned:
    """Close a trial, and remember what it came to.

    With `useless_load`, its size is of no use until there is more than that to do in a batch.
    """
    before = lesson_of(learned, trial.kind, trial.of)
    lesson = (
        Lesson(trial, found, paid, 0 if paid else 1)
        if before is None
        else replace(before, trial=trial, found=found, paid=paid, in_vain=0 if paid else before.in_vain + 1)
    )
    if useless_load is not None:
        lesson = replace(lesson, useless_size=trial.from_size + 1, useless_load=useless_load)
    others = [entry for entry in learned.lessons if (entry.trial.kind, entry.trial.of) != (trial.kind, trial.of)]
    open_still = tuple(entry for entry in learned.trials if entry != trial)
    return replace(learned, trials=open_still, lessons=(*others, lesson))


def came_true(trial: Trial, found: Figures, times: float = 1.0) -> bool:
    """Whether all figures are nearer to what was expected of them than to what they were, or better.

    `times` as much came since as before: both are taken to grow with it.

    >>> trial = Trial(PLAN, "(A B)", 3, {"cpu": 2.0}, {"cpu": 1.0})
    >>> came_true(trial, {"cpu": 1.4}), came_true(trial, {"cpu": 1.6}), came_true(trial, {"cpu": 1.6}, times=1.2)
    (True, False, True)
    """
    for name in found.keys() & trial.expected.keys():
        before, expected = trial.before[name] * times, trial.expected[name] * times
        most = (before + expected) / 2
        if expected >= before:
            most = expected + max((expected - before) / 2, NOISE * expected)
        if found[name] > most:
            return False
    return True


def cools_down(learned: Learned, kind: str, batch: int, every: int, of: str = "") -> bool:
    """Whether it is too soon for another trial, where one may come `every` so many batches."""
    lesson = lesson_of(learned, kind, of)
    if lesson is None or not lesson.in_vain:
        return False
    return batch - lesson.trial.at_batch < every << min(lesson.in_vain, MOST_WAITS)


def figures_of(trial: Trial | None, found: Figures | None = None) -> dict[str, float]:
    """What a trial was decided by and what is expected of it, for people; with what was found, if it is reviewed.

    >>> figures_of(Trial(MERGE, "", 3, {}, {"results": 7.0}), {"results": 5.0})
    {'results_expected': 7.0, 'batch': 3, 'results_found': 5.0}
    """
    if trial is None:
        return {}
    suffix = _SUFFIX.get(trial.kind, "expected")
    expected = {f"{name}_{suffix}": value for name, value in trial.expected.items()}
    told = {**trial.before, **expected, **trial.notes}
    if found is None:
        return told
    return {**told, "batch": trial.at_batch, **{f"{name}_found": value for name, value in found.items()}}


def come_true(learned: Learned, operator: str) -> float:
    """The share of the results expected of merges of an operator that came the last time."""
    lesson = lesson_of(learned, MERGE, operator)
    return 1.0 if lesson is None else lesson.ratio


def learn_merges(learned: Learned, results: int) -> Learned:
    """After a batch or round in which all merges together emitted so many results, by the shares that were expected."""
    trials = [trial for trial in learned.trials if trial.kind == MERGE]
    total = sum(trial.expected["results"] for trial in trials)
    for trial in trials:
        expected = trial.expected["results"]
        share = expected / total if total else 1 / len(trials)
        usual = come_true(learned, trial.of) * expected
        learned = learn(learned, trial, {"results": results * share}, results * share >= usual / 2)
    return learned
