"""The controller: at each moment takes one consistent look, asks every policy, and says what comes of it.

Pure but for the ledgers, which it keeps up from version to version; it commits nothing. The driver does, and hands the
work to the tasks.
"""

from __future__ import annotations

from dataclasses import replace

from watersmeet.adapt.decisions.change_plan import ChangePlan
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Effects, Known, effects_of
from watersmeet.adapt.in_force import policies_for
from watersmeet.adapt.outlook import Facts, Moment, Outlook
from watersmeet.adapt.policy import Policy
from watersmeet.adapt.settle import place_first, settle
from watersmeet.model.routing import Groups
from watersmeet.optimize.reconsider import Planning
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.state.expiry import Watermarks
from watersmeet.state.learned import Learned
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import Manifest


class Controller:
    """Decides for one track, from a version on. No `policies` in force is no adaptation, by the same code."""

    def __init__(
        self,
        plan: PhysicalPlan,
        settings: AdaptSettings | None = None,
        policies: tuple[Policy, ...] | None = None,
        planning: Planning = Planning(),  # noqa: B008 - frozen
    ) -> None:
        self.plan = plan
        self.planning = planning
        self.settings = settings or AdaptSettings()
        self.ledgers = Ledgers(plan)
        self.policies = policies_for(self.settings) if policies is None else policies

    def follow(self, plan: PhysicalPlan) -> Controller:
        """One that decides for another track, by the same policies."""
        return Controller(plan, self.settings, self.policies, self.planning)

    @property
    def watched(self) -> bool:
        """Whether tasks keep statistics of groups: a policy may have to choose by them."""
        return self.settings.watched

    def ask(
        self,
        moment: Moment,
        manifest: Manifest,
        learned: Learned,
        watermarks_us: Watermarks,
        now_us: int = 0,
        within: Groups | None = None,
    ) -> Effects:
        """What to commit and to do now; of what these groups hold and owe alone, if any."""
        facts = Facts(
            moment,
            self.plan,
            manifest,
            self.ledgers,
            learned,
            watermarks_us,
            self.settings,
            self.planning,
            now_us,
            within,
        )
        decisions = self._propose(facts)
        if any(map(_is_weighed, decisions)) and (planning := self.planning.by_this_machine()) is not None:
            # A change that pays by the costs of another machine is weighed again by those of this one.
            self.planning = planning
            decisions = self._propose(replace(facts, planning=planning))
        known = Known(self.plan, manifest, self.ledgers, learned)
        settled = settle(decisions)
        return place_first(settled, known) or effects_of(settled, known)

    def _propose(self, facts: Facts) -> list[Decision]:
        """What each policy wants, in their order."""
        return [
            replace(decision, origin=policy.origin)
            for policy in self.policies
            if facts.moment in policy.moments
            for decision in policy.propose(Outlook(facts, policy.needs))
        ]

    def effects(self, decisions: list[Decision], manifest: Manifest, learned: Learned) -> Effects:
        """What comes of decisions, whoever made them."""
        return effects_of(settle(decisions), Known(self.plan, manifest, self.ledgers, learned))

    def owes(self, manifest: Manifest, within: Groups | None = None) -> bool:
        """Whether any group owes results, of these if not of all."""
        return any(ledger.owes(within) for ledger in self.ledgers.at(manifest).values())


def _is_weighed(decision: Decision) -> bool:
    """Whether it was decided by what plans cost."""
    return isinstance(decision, ChangePlan) and decision.by_policy
