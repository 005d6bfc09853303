"""Runs the relocation experiments. What is found is data, for `placement_claims.py` and `placement_page.py`.

Every run of a setting has the same rows; each goes on to the end of its clean-up, and must give as many results in all
as the run without a limit does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from experiments.budgeted import History, Sample, run_budgeted
from experiments.placement import LAZY, Contender, Extent, Setting, level_loads, looking, settings
from watersmeet.adapt.controller import Controller
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.in_force import policies_for
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.adapt.policies.balance_slots import BalanceSlots
from watersmeet.adapt.policy import Policy
from watersmeet.errors import InternalError
from watersmeet.model.origin import Origin
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.settings.adapt import AdaptSettings

Say = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """All runs of a setting, by contender."""

    setting: Setting
    unlimited: History
    limit_bytes: int | None
    runs: Mapping[str, History]

    def to_json(self) -> dict[str, Any]:
        return {
            "setting": self.setting.name,
            "figures": self.setting.figures,
            "limit_bytes": self.limit_bytes,
            "unlimited_bytes": self.unlimited.most_bytes,
            "results": self.unlimited.results,
            "runs": {name: _run_json(run) for name, run in self.runs.items()},
        }


def _run_json(run: History) -> dict[str, Any]:
    return {
        "run_time_results": run.run_time_results,
        "moves": [round(sample.seconds, 3) for sample in run.moves],
        "moved_groups": moved_groups(run),
        "spills": run.spills,
        "first_spill_seconds": None if (first := first_spill(run)) is None else round(first.seconds, 3),
        "clean_up_results": run.clean_up_results,
        "clean_up_cpu_seconds_by_slot": [round(seconds, 3) for seconds in run.clean_up_cpu_of_slots],
        "run_time_cpu_seconds": round(run.run_time_cpu, 3),
    }


@dataclass(frozen=True)
class Looks:
    """What looks take of a run in which there is nothing to balance."""

    what: str
    batch_rows: int  # of all streams together
    batches: int
    seconds: float  # of CPU, in looks
    cpu_seconds: float  # in all
    moved: int  # groups

    @property
    def share(self) -> float:
        return self.seconds / self.cpu_seconds


@dataclass(frozen=True)
class Findings:
    extent: Extent
    outcomes: Mapping[str, Outcome]
    looks: tuple[Looks, ...]  # where there is nothing to balance
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "size": asdict(self.extent),
            "settings": [outcome.to_json() for outcome in self.outcomes.values()],
            "looks": [asdict(entry) for entry in self.looks],
        }


def first_spill(run: History) -> Sample | None:
    return next((sample for sample in run.run_time if sample.spilled_groups), None)


def moved_groups(run: History) -> int:
    """Groups that all moves took, one as often as it was moved."""
    decisions = [entry for sample in run.moves for entry in sample.decisions if entry["decision"] == "MoveGroups"]
    return sum(len(entry["moves"]) for entry in decisions)


def run_all(extent: Extent, say: Say) -> Findings:
    """Everything, in the order of the page."""
    began = time.perf_counter()
    outcomes = {setting.name: run_setting(setting, say) for setting in settings(extent)}
    looks = tuple(time_looks(setting, say) for setting in level_loads(extent))
    return Findings(extent, outcomes, looks, time.perf_counter() - began)


class Timed:
    """A policy, and the CPU seconds that it has taken."""

    origin: ClassVar[Origin] = BalanceSlots.origin
    moments: ClassVar[frozenset[Moment]] = BalanceSlots.moments
    needs: ClassVar[frozenset[Signal]] = BalanceSlots.needs

    def __init__(self, policy: BalanceSlots) -> None:
        self.seconds = 0.0
        self._policy = policy

    def propose(self, outlook: Outlook) -> list[Decision]:
        began = time.thread_time()
        found = list(self._policy.propose(outlook))
        self.seconds += time.thread_time() - began
        return found


def time_looks(setting: Setting, say: Say) -> Looks:
    """What `lazy-disk` costs where there is nothing to balance, and how many groups it moves there."""
    query, rows, course = setting.query, setting.rows(), setting.course(setting.contenders[0])
    assert setting.limit_share is not None
    budget = int(setting.limit_share * run_budgeted(query, rows, course, AdaptSettings()).most_bytes)
    memory = looking(LAZY, budget)
    timed = Timed(BalanceSlots.of(memory))

    def control(plan: PhysicalPlan, memory: AdaptSettings) -> Controller:
        policies: list[Policy] = [
            timed if isinstance(policy, BalanceSlots) else policy for policy in policies_for(memory)
        ]
        return Controller(plan, memory, tuple(policies))

    run = run_budgeted(query, rows, course, memory, control=control)
    batch_rows = sum(batch.num_rows for batch in rows.values()) // len(run.run_time)
    looks = Looks(setting.name, batch_rows, len(run.run_time), timed.seconds, run.run_time_cpu, moved_groups(run))
    say(f"looks, {setting.name}: {looks.share:.2%} of CPU, {looks.moved} groups moved, {run.spills} spills")
    return looks


def run_setting(setting: Setting, say: Say) -> Outcome:
    """The run without a limit, which says how large that is, then one for each contender."""
    query, rows = setting.query, setting.rows()
    unlimited = run_budgeted(query, rows, setting.course(setting.contenders[0]), AdaptSettings())
    limit = None if setting.limit_share is None else int(setting.limit_share * unlimited.most_bytes)
    room = "" if limit is None else f", {limit / 1e6:.2f} MB for each slot"
    say(f"{setting.name}: {unlimited.results:,} results{room}")

    def run(contender: Contender) -> History:
        found = run_budgeted(query, rows, setting.course(contender), contender.memory(limit))
        if found.results != unlimited.results:
            raise InternalError(
                f"{contender.name} of {setting.name} has {found.results} results, and {unlimited.results} are right"
            )
        share = found.run_time_results / unlimited.results
        say(f"  {contender.name}: {share:.1%} at run time, {len(found.moves)} moves, {found.spills} spills")
        return found

    return Outcome(setting, unlimited, limit, {contender.name: run(contender) for contender in setting.contenders})
