"""Emitting everything that is owed: from the bottom up, and no more at once than fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapt.asking import J1, J2, PLAN, Asked, entry
from small_plans import GROUPS, manifest_of
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.effects import Known, effects_of
from watersmeet.adapt.decisions.merge import MergeGroup
from watersmeet.adapt.decisions.spill import CloseLive
from watersmeet.adapt.estimates import owed_by_group
from watersmeet.adapt.in_force import policies_for
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.clean_up_all import CleanUpAll
from watersmeet.adapt.policies.merge_passed import MergePassed
from watersmeet.adapt.policies.merge_tiers import MergeTiers
from watersmeet.model.ids import OperatorName
from watersmeet.model.segments import Segment
from watersmeet.settings.adapt import AdaptSettings
from watersmeet.state.learned import MERGE, Learned, Lesson, Trial
from watersmeet.state.ledger import Ledgers

MERGING = (CleanUpAll, MergePassed, MergeTiers)


def decided(
    *segments: Segment, budget: int | None = None, moment: Moment = Moment.DRAIN, learned: Learned | None = None
) -> list[Decision]:
    manifest = manifest_of(PLAN, *segments)
    return Asked(manifest, moment, learned=learned or Learned()).propose(CleanUpAll(budget))


def merged(decisions: list[Decision]) -> list[tuple[str, int]]:
    return [(decision.operator, decision.group) for decision in decisions if isinstance(decision, MergeGroup)]


BOTH = (
    entry("c", "C", cold=1),
    entry("a", "A", groups=((3, 5),), cold=1),
    entry("c2", "C"),
    entry("a2", "A", groups=((3, 6),)),
)


def test_it_begins_with_the_lowest_operator() -> None:
    found = decided(*BOTH)
    assert sorted(merged(found)) == [(J1, 3), (J1, 4)]
    assert all(decision.with_live for decision in found if isinstance(decision, MergeGroup))
    above = decided(*(segment for segment in BOTH if segment.id != "a"))
    assert sorted(merged(above)) == [(J2, group) for group in range(GROUPS)]


@pytest.mark.parametrize("moment, closed", [(Moment.DRAIN, [3, 4]), (Moment.END, [3, 4, 5])])
def test_what_the_operator_has_in_memory_makes_room(moment: Moment, closed: list[int]) -> None:
    """What is owed results anyway; and where no more rows will come, all of it."""
    found = decided(*BOTH, moment=moment)
    assert [d.groups for d in found if isinstance(d, CloseLive)] == [tuple((J1, group) for group in closed)]
    assert sorted(merged(found)) == [(J1, 3), (J1, 4)]


def test_on_request_what_will_be_merged_makes_room_and_the_rest_stays() -> None:
    found = decided(*BOTH)
    assert [d.groups for d in found if isinstance(d, CloseLive)] == [((J1, 3), (J1, 4))], "J1:5 owes nothing"
    rows = [entry("a", "A", rows=10, cold=1), entry("a2", "A", rows=10)]
    assert len(merged(decided(*rows, budget=1000))) == 5, "200 bytes a group, none of them in memory by then"


def test_it_reads_no_more_at_once_than_fits() -> None:
    rows = [entry(f"a{number}", "A", rows=10, cold=number) for number in (1, 2)]
    sizes = {budget: len(merged(decided(*rows, budget=budget))) for budget in (1, 600, 1000, 100_000, None)}
    assert sizes == {1: 1, 600: 3, 1000: 5, 100_000: GROUPS, None: GROUPS}, "200 bytes a group, and one at least"


def test_what_is_in_memory_leaves_less_room() -> None:
    rows = [entry(f"a{number}", "A", rows=10, cold=number) for number in (1, 2)]
    other = entry("c", "C", rows=5)  # 400 bytes
    assert len(merged(decided(*rows, other, budget=1000))) == 3
    assert len(merged(decided(*rows, entry("c", "C", rows=50), budget=1000))) == 1, "a quarter of it at least"


@pytest.fixture
def keyed() -> list[Segment]:
    """Each generation owes the other 200 rows: there is one key in each group."""
    rows = [entry(f"{name}{number}", name, rows=10, cold=number) for name in "AB" for number in (1, 2)]
    return [replace(segment, group_keys=(1,) * GROUPS) for segment in rows]


def test_it_allows_for_what_it_emits(keyed: list[Segment]) -> None:
    """J1 is below J2: what its merges emit stays in memory."""
    sizes = {budget: len(merged(decided(*keyed, budget=budget))) for budget in (5000, 10_000, 100_000)}
    assert sizes == {5000: 1, 10_000: 2, 100_000: GROUPS}, "400 bytes a group read, 4,000 emitted"


def test_it_learns_how_many_of_the_results_expected_come(keyed: list[Segment]) -> None:
    learned = Learned(lessons=(came(J1, 100.0), came(J2, 50_000.0)))
    assert len(merged(decided(*keyed, budget=5000, learned=learned))) == 6, "a tenth came: 400 bytes emitted"


def came(operator: OperatorName, results: float) -> Lesson:
    """So many results of 1,000."""
    return Lesson(Trial(MERGE, "", 0, {}, {"results": 1000.0}, operator), {"results": results}, True)


def test_a_merge_predicts_its_results(keyed: list[Segment]) -> None:
    """For all groups that are merged together, with what they have in memory."""
    manifest = manifest_of(PLAN, *keyed)
    groups = merged(decided(*keyed, budget=5000))
    merges: list[Decision] = [MergeGroup(operator, group, "x") for operator, group in groups]
    effects = effects_of(merges, Known(PLAN, manifest, Ledgers(PLAN), Learned()))
    assert effects.learned is not None
    (trial,) = effects.learned.trials
    assert (trial.kind, trial.of, trial.expected) == (MERGE, J1, {"results": pytest.approx(200, rel=0.001)})
    ledger = Ledgers(PLAN).at(manifest)[J1]
    assert sum(owed_by_group(ledger, group, True) for _, group in groups) == pytest.approx(trial.expected["results"])


def test_rows_that_have_cooled_are_owed_too() -> None:
    assert merged(decided(entry("a", "A", groups=((1, 2),), cold=1), entry("a2", "A", groups=((1, 2),), cold=-1))) == [
        (J1, 1)
    ]


@pytest.mark.parametrize("moment", [Moment.DRAIN, Moment.END])
def test_nothing_is_done_where_nothing_is_owed(moment: Moment) -> None:
    assert decided(entry("a", "A", cold=1), moment=moment) == []
    assert decided(entry("a", "A"), moment=moment) == []


@pytest.mark.parametrize(
    "settings, expected",
    [(AdaptSettings(800), 800), (AdaptSettings(slot_bytes=300), 300), (AdaptSettings(800, slot_bytes=300), 300)],
    ids=["of all slots", "of one", "of one, where all that is merged may be"],
)
def test_merges_keep_to_the_limit_of_a_slot(settings: AdaptSettings, expected: int) -> None:
    limits = [policy.budget_bytes for policy in policies_for(settings) if isinstance(policy, MERGING)]
    assert limits == [expected] * len(MERGING)
