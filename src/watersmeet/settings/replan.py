"""When the plan is looked at again while a query runs, and how it is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from watersmeet.settings.declaration import Checked, setting
from watersmeet.settings.kinds import Number, OneOf, Whole, refuse_unknown
from watersmeet.settings.words import AUTO, OFF

BY_QUERY, BY_SLOT = "query", "slot"
REFINED = "refined"
BY = (AUTO, "seeded", "moving-state", "parallel-track")  # the roads of `adapt/policies/migrate/`
_ROAD = "way to change the plan"


@dataclass(frozen=True)
class ReplanSettings(Checked):
    """When the plan is looked at again (`policies/replan/`): for what reason, how often, and the way to another one."""

    # AUTO is not known before the plan is, see `for_plan`; until then there is no reason to look.
    trigger: str = setting(
        OneOf((AUTO, OFF, "data-driven", "memory-driven", REFINED)),
        AUTO,
        "When the plan is looked at again while the query runs, and changed if that pays.",
        name="replan",
        more='`auto` is `refined` with `plan = "auto"`, and `off` where `plan` names anything else. `data-driven`: '
        "rates, "
        "selectivities or the shares that filters pass have changed. `memory-driven`: the state is near its budget and "
        "grows steadily, or the unread rows of a source do. `refined`: either of these, or the groups that owe results "
        "become steadily more. See [below](#a-plan-that-follows-its-streams).",
    )
    every: int = setting(
        Whole("It is a number of batches, from 1."),
        10,
        "The number of batches from one look at the plan to the next.",
        name="replan_every",
    )
    threshold: float = setting(
        Number("It is a share: from 0 to 1.", least=0, most=1),
        0.2,
        "The share by which a figure must have changed.",
        name="replan_threshold",
        more="With `0` every look asks for a better plan.",
    )
    by: str = setting(
        OneOf(BY, called=_ROAD),
        AUTO,
        "How a plan is changed.",
        name="migrate",
        more="`auto`, `seeded`, `moving-state` or `parallel-track`: [the ways](#forced-steps).",
    )
    quota: float = setting(
        Number("It is a share of the time between two looks: from 0 to 1.", least=0, most=1),
        0.02,
        "The share of the time between two looks that a search for a better plan may take.",
        name="replan_quota",
        more="It may always take 20 ms. With `0` no search is made, and only the plans are known that served before.",
    )
    scope: str = setting(
        OneOf((BY_QUERY, BY_SLOT)),
        BY_QUERY,
        "Which groups get a better plan: those of the whole query together, or those of each slot.",
        name="replan_scope",
        more="With `slot`, each slot goes by the figures of its own rows. See [below](#plans-that-differ-by-group).",
    )

    @property
    def is_on(self) -> bool:
        return self.trigger not in (OFF, AUTO)

    @property
    def is_by_slot(self) -> bool:
        return self.is_on and self.scope == BY_SLOT

    def for_plan(self, plan: str) -> ReplanSettings:
        """With `AUTO` made out: a user who leaves the choice of a plan to us leaves it to us later on as well.

        >>> ReplanSettings(AUTO).for_plan("auto").trigger, ReplanSettings(AUTO).for_plan("mjoin").trigger
        ('refined', 'off')
        """
        return replace(self, trigger=REFINED if plan == AUTO else OFF) if self.trigger == AUTO else self


def check_by(by: str) -> None:
    refuse_unknown(by, BY, _ROAD)
