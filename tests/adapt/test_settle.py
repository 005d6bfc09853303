"""Conflicts of decisions, drawn: nothing that people force and nothing that was found out is lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from adapt.asking import J1, J2, PLAN
from watersmeet.adapt.decisions.cannot_force import CannotForce
from watersmeet.adapt.decisions.change_plan import ChangePlan, LookAtPlan
from watersmeet.adapt.decisions.cut_group import CutGroup
from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.decisions.merge import MergeGroup
from watersmeet.adapt.decisions.place import DrawTogether, MoveGroups
from watersmeet.adapt.decisions.rescale import Rescale, ResizeRing
from watersmeet.adapt.decisions.review import Review
from watersmeet.adapt.decisions.spill import CloseLive, SpillGroups
from watersmeet.adapt.settle import settle
from watersmeet.model.origin import ByPolicy, Forced
from watersmeet.state.learned import BALANCE, RING, SLOTS, Look, Trial
from watersmeet.state.learned import PLAN as PLAN_TRIAL

K0 = PLAN.operators[J1].partitioning
KINDS = (PLAN_TRIAL, SLOTS, RING, BALANCE)

origins = st.sampled_from([Forced(), ByPolicy("one"), ByPolicy("another")])
operators, groups, sizes = st.sampled_from([J1, J2]), st.integers(0, 3), st.integers(1, 4)
keys = st.lists(st.tuples(operators, groups), max_size=3, unique=True).map(tuple)


def review_of(kind: str) -> st.SearchStrategy[Review]:
    trial = Trial(kind, "p", 0, {"seconds": 1.0}, {"seconds": 0.5})
    return st.builds(Review, st.just(trial), st.just({"seconds": 0.7}), st.booleans(), st.sampled_from("xy"))


def perhaps(kind: str) -> st.SearchStrategy[object]:
    """The review that a decision follows from; no forced step has one."""
    return st.none() | review_of(kind)


decisions = st.one_of(
    st.builds(SpillGroups, keys, st.just("s"), origin=origins),
    st.builds(CloseLive, keys, st.just("c")),
    st.builds(MergeGroup, operators, groups, st.just("m"), with_live=st.booleans(), origin=origins),
    st.builds(CutGroup, st.just(J1), groups, st.just(K0), st.just(7), st.just(1), st.just("c"), origin=origins),
    st.builds(MoveGroups, st.just(((J1, 0, 1),)), st.just(1), st.sampled_from("xy"), origin=origins),
    st.builds(DrawTogether, operators, groups, st.just(1), st.just("d"), origin=origins),
    st.builds(Rescale, st.just(2), sizes, st.just(1), st.just("r"), origin=st.just(Forced())),
    st.builds(Rescale, st.just(2), sizes, st.just(1), st.just("r"), review=perhaps(SLOTS)),
    st.builds(ResizeRing, st.just(2), sizes, st.just(()), st.just(1), st.just("r"), origin=st.just(Forced())),
    st.builds(ResizeRing, st.just(2), sizes, st.just(()), st.just(1), st.just("r"), review=perhaps(RING)),
    st.builds(ChangePlan, st.sampled_from("pq"), st.just("auto"), st.just(1), st.just("c"), origin=st.just(Forced())),
    st.builds(ChangePlan, st.sampled_from("pq"), st.just("auto"), st.just(1), st.just("c"), review=perhaps(PLAN_TRIAL)),
    st.builds(LookAtPlan, st.just(Look(1, {}, 0))),
    *map(review_of, KINDS),
)
drawn = st.lists(decisions, max_size=7)


def reviews_in(decided: list[Decision]) -> set[str]:
    """Reviews, also those that decisions carry, as text: these have nothing that can be hashed."""
    carried = [getattr(entry, "review", None) for entry in decided]
    return {repr(entry) for entry in (*decided, *carried) if isinstance(entry, Review)}


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(drawn)
def test_what_is_settled_stays_settled(decided: list[Decision]) -> None:
    assert settle(settle(decided)) == settle(decided)


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(drawn)
def test_reviews_are_lost_only_beside_cuts_where_everybody_is_asked_again(decided: list[Decision]) -> None:
    settled = settle(decided)
    if not any(isinstance(entry, CutGroup) for entry in settled):
        assert reviews_in(settled) == reviews_in(decided)


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(drawn)
def test_nothing_forced_is_dropped_in_silence(decided: list[Decision]) -> None:
    """It is done, or it is said that it cannot be, or it is asked for again after a cut or a change of the plan."""
    settled = settle(decided)
    forced = [entry for entry in decided if isinstance(entry.origin, Forced)]
    if any(isinstance(entry, CutGroup) for entry in settled):
        forced = [entry for entry in forced if isinstance(entry, CutGroup)]
    elif any(isinstance(entry, ChangePlan) for entry in settled):
        changes = [entry for entry in forced if isinstance(entry, ChangePlan)]
        assert not changes or changes[0] in settled, "a policy's does not go before it"
        return
    said = [entry.reason for entry in settled if isinstance(entry, CannotForce)]
    merged = {(entry.operator, entry.group) for entry in settled if isinstance(entry, MergeGroup)}
    cut = {(entry.partitioning, entry.group) for entry in settled if isinstance(entry, CutGroup)}
    spilled = {key for entry in settled if isinstance(entry, SpillGroups) for key in entry.groups}
    for entry in forced:
        if isinstance(entry, SpillGroups):
            assert set(entry.groups) <= spilled | merged
        elif isinstance(entry, MergeGroup):
            assert (entry.operator, entry.group) in merged
        elif isinstance(entry, CutGroup):
            assert (entry.partitioning, entry.group) in cut
        elif isinstance(entry, (Rescale, ResizeRing)):
            held = [other for other in settled if type(other) is type(entry)]
            assert [other.slots for other in held] == [entry.slots] or said  # type: ignore[attr-defined]
        else:
            assert entry in settled


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(drawn)
def test_what_is_undone_gives_way_to_people_alone(decided: list[Decision]) -> None:
    settled = settle(decided)
    if any(isinstance(entry, CutGroup) for entry in settled):
        return
    for kind in (Rescale, ResizeRing):
        asked = [entry for entry in decided if isinstance(entry, kind)]
        if any(entry.review is not None for entry in asked) and all(entry.by_policy for entry in asked):
            (held,) = [entry for entry in settled if isinstance(entry, kind)]
            assert held.review is not None
