"""The merge that pays most, asked for by the cheap question first; `test_merge_policies.py` has the choice itself."""

from __future__ import annotations

import pytest

from adapt.asking import J2, PLAN, Asked, entry
from small_plans import manifest_of
from watersmeet.adapt.decisions.merge import MergeGroup
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.merge_worthwhile import MergeWorthwhile
from watersmeet.model.segments import Segment


@pytest.mark.parametrize("moment", [Moment.BEFORE_BATCH, Moment.IDLE])
@pytest.mark.parametrize(
    "segments, groups",
    [
        ((entry("c", "C", cold=1), entry("ab", "A+B", cold=2)), [0]),
        ((entry("c", "C", groups=((2, 4),), cold=1), entry("ab", "A+B", groups=((3, 5),), cold=2)), [3]),
        ((entry("c", "C", cold=1), entry("ab", "A+B")), []),
        ((entry("c", "C", cold=1), entry("ab", "A+B", cold=-1)), []),
        ((entry("c", "C"), entry("ab", "A+B")), []),
    ],
    ids=[
        "one of the groups that owe",
        "one with two closed generations",
        "one closed generation has nobody to be merged with",
        "nor has one with rows that have cooled",
        "nothing is cold",
    ],
)
def test_what_is_merged(moment: Moment, segments: tuple[Segment, ...], groups: list[int]) -> None:
    found = Asked(manifest_of(PLAN, *segments), moment).propose(MergeWorthwhile())
    assert [(d.operator, d.group) for d in found if isinstance(d, MergeGroup)] == [(J2, group) for group in groups]


@pytest.mark.parametrize("moment, merged", [(Moment.BEFORE_BATCH, False), (Moment.IDLE, True)])
def test_what_has_hardly_grown_is_merged_while_nothing_else_is_to_be_done(moment: Moment, merged: bool) -> None:
    rows = (entry("c", "C", rows=99, cold=1), entry("ab", "A+B", rows=1, cold=2))
    assert bool(Asked(manifest_of(PLAN, *rows), moment).propose(MergeWorthwhile())) is merged
