"""Runs the cases of `early.py`, each once whatever number of figures it is in, and says how each of them went.

A batch takes what has come in a second, and lasts that second: the state manager then weighs results a second of
input. Each batch, and each second in which nothing comes, merges at most one group. Runs end with their input, since
only early results count; how large the whole answer is follows from the rows.

Invariant: what an outcome says of results does not depend on the machine or on how many cases run side by side.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from experiments.budgeted import History, run_budgeted
from experiments.early import BATCH_SECONDS, Case, bind_query, count_results, input_bytes, make_rows
from watersmeet.state.manifest import BatchRecord

Say = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """What came of a case until its input ended."""

    case: Case
    seconds: tuple[float, ...]  # of each sample
    results: tuple[int, ...]  # by then
    answer: int  # results in all, early or not
    spills: int
    flushed_share: float  # of the memory, by the mean spill
    merges: int
    budget_bytes: int
    most_bytes: int
    owed_groups: int  # at the end of the input
    cpu_seconds: float

    @property
    def early(self) -> int:
        """Results before the end of the input."""
        return self.results[-1]

    def by(self, share: float) -> int:
        """Results before this share of the time had passed."""
        until = share * self.seconds[-1]
        pairs = zip(self.seconds, self.results, strict=True)
        return max((results for second, results in pairs if second <= until), default=0)

    def to_json(self) -> dict[str, Any]:
        setting, method = self.case.setting, self.case.method
        return {
            "method": method.name,
            "spill": method.spill,
            "merge": method.merge,
            "smoothing": method.smoothing,
            "streams": setting.streams,
            "bursty": setting.bursty,
            "rows": setting.rows,
            "ratio": setting.ratio,
            "memory_share": setting.memory_share,
            "flush_share": setting.flush_share,
            "early_results": self.early,
            "results_at_half_time": self.by(0.5),
            "answer": self.answer,
            "input_seconds": self.seconds[-1],
            "spills": self.spills,
            "flushed_share": round(self.flushed_share, 4),
            "merges": self.merges,
            "budget_bytes": self.budget_bytes,
            "most_bytes": self.most_bytes,
            "owed_groups": self.owed_groups,
            "cpu_seconds": round(self.cpu_seconds, 3),
        }


Outcomes = dict[Case, Outcome]


def lead(ahead: Outcome, behind: Outcome) -> float:
    """How much more `ahead` has at the end of the input, as a share of what `behind` has.

    Where `behind` has nothing at all it is taken to have one result.
    """
    return ahead.early / max(1, behind.early) - 1


def run_case(case: Case) -> Outcome:
    """Run it now, in this process."""
    rows = make_rows(case.setting)
    memory = case.method.settings(case.setting, input_bytes(rows))
    history = run_budgeted(bind_query(case.setting), rows, case.setting.course, memory, _one_interval)
    assert memory.budget_bytes is not None
    return _outcome(case, history, count_results(case.setting, rows), memory.budget_bytes)


def _one_interval(record: BatchRecord) -> float:
    return BATCH_SECONDS


def _outcome(case: Case, history: History, answer: int, budget_bytes: int) -> Outcome:
    samples = history.run_time
    freed = [sample.peak_bytes - sample.active_bytes for sample in samples if sample.spilled_groups]
    merges = [d for sample in samples for d in sample.decisions if d["decision"] == "MergeGroup"]
    return Outcome(
        case=case,
        seconds=tuple(sample.seconds for sample in samples),
        results=tuple(sample.results for sample in samples),
        answer=answer,
        spills=history.spills,
        flushed_share=sum(freed) / len(freed) / budget_bytes if freed else 0.0,
        merges=len(merges),
        budget_bytes=budget_bytes,
        most_bytes=history.most_bytes,
        owed_groups=samples[-1].owed_groups,
        cpu_seconds=history.run_time_cpu,
    )


def run_cases(cases: Sequence[Case], jobs: int, say: Say) -> Outcomes:
    """Run each of them once, `jobs` at a time."""
    wanted = list(dict.fromkeys(cases))
    outcomes: Outcomes = {}
    with _mapping(jobs) as run_all:
        for number, outcome in enumerate(run_all(wanted), 1):
            outcomes[outcome.case] = outcome
            setting, method = outcome.case.setting, outcome.case.method
            say(
                f"{number} of {len(wanted)}: {len(setting.streams) - 1} joins, {setting.name}, {method.name}: "
                f"{outcome.early:,} of {outcome.answer:,} results came early"
            )
    return outcomes


@contextmanager
def _mapping(jobs: int) -> Iterator[Callable[[Sequence[Case]], Iterator[Outcome]]]:
    if jobs == 1:
        yield lambda cases: map(run_case, cases)
        return
    # Not forked: Arrow's threads would not survive it.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield lambda cases: pool.map(run_case, cases)
