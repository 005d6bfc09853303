"""The order in which everything owed is paid: at the end of the input, or on request.

Operators from the bottom of the plan up, because what a merge emits enters the operator above as ordinary input, and
that one is complete only then ([Liu06, section 4.2], [Levandoski11, section V-C]). Within an operator, the group that
gives most results of the query for each byte read comes first, so that users get most of them early; the papers leave
that order open. The live generation of a group counts as one more, to be closed before the merge.

Every group with two generations is listed, also where the estimate is that it owes nothing: estimates decide the order,
never what is paid. A live generation without rows and bytes is none, so the view must not round one down to that.

What is emitted below makes groups above owe more. So the list is right for the lowest operator in it; take a new view
before going on to the next, until the list is empty.
"""

from __future__ import annotations

from watersmeet.adapt.decisions.merge import MergeGroup
from watersmeet.adapt.estimates import global_share, owed_by
from watersmeet.adapt.view import MemoryView


def clean_up(view: MemoryView) -> tuple[MergeGroup, ...]:
    """All groups with something to merge, in the order of merging."""
    found = []
    for cold in view.cold:
        whole = cold.and_live(view.live(cold.operator, cold.group))
        if whole.generations < 2:
            continue
        owed = owed_by(whole) * global_share(view, cold.operator, cold.group)
        operator = view.operator(cold.operator)
        place = (operator.level, -operator.depth, operator.id)
        reason = f"{whole.generations} generations with {whole.bytes} bytes owe about {owed:.4g} results of the query"
        found.append((place, -owed / max(1, whole.bytes), cold.group, MergeGroup(cold.operator, cold.group, reason)))
    return tuple(entry[-1] for entry in sorted(found, key=lambda entry: entry[:-1]))
