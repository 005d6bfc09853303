"""Asks one policy what it proposes, by a manifest made by hand for the plan of `small_plans`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from small_plans import SECOND, chain_plan, named, piece
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.outlook import Facts, Moment, Outlook
from watersmeet.adapt.policy import Policy
from watersmeet.model.routing import GroupRange
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.state.expiry import Watermarks
from watersmeet.state.learned import Learned
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest

PLAN = chain_plan()
J1, J2 = named(PLAN, "J1"), named(PLAN, "J2")
ALL: tuple[GroupRange, ...] = ((0, 8),)


def entry(name: str, inputs: str, begin: float = 0, groups: tuple[GroupRange, ...] = ALL, **more: Any) -> Segment:
    return piece(PLAN, name, inputs, groups, begin, **more)


# 8 groups of A and of B with 5 rows of 10 bytes each: 100 bytes a group, 800 in all.
HELD = (entry("a", "A", rows=5), entry("b", "B", rows=5))


def at(seconds: float) -> dict[str, int | None]:
    """All streams have come that far."""
    return dict.fromkeys("ABC", int(seconds * SECOND))


@dataclass(frozen=True)
class Asked:
    manifest: Manifest
    moment: Moment = Moment.BEFORE_BATCH
    settings: AdaptSettings = field(default_factory=AdaptSettings)
    learned: Learned = field(default_factory=Learned)
    marks: Watermarks = field(default_factory=lambda: at(0))
    plan: PhysicalPlan = PLAN

    def outlook(self, policy: Policy) -> Outlook:
        facts = Facts(
            self.moment, self.plan, self.manifest, Ledgers(self.plan), self.learned, self.marks, self.settings
        )
        return Outlook(facts, policy.needs)

    def propose(self, policy: Policy) -> list[Decision]:
        assert self.moment in policy.moments
        found = list(policy.propose(self.outlook(policy)))
        assert list(policy.propose(self.outlook(policy))) == found, "the same view, the same answer"
        return found
