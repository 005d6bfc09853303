"""What policies decide, as data: imperative, with a reason for people. `effects.py` says what comes of each.

In the manifest operators are named by content; `for_people` puts the labels of a plan in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from watersmeet.model.ids import Generation, GroupKey, OperatorName, Partitioning, SegmentId, StateName
from watersmeet.model.origin import ByPolicy, Origin, origin_from_json, origin_to_json
from watersmeet.model.routing import GroupRange, Groups
from watersmeet.model.segments import ranges_from_json
from watersmeet.state.taken import PLAN, Taken
from watersmeet.state.updates import RecordDecision


@dataclass(frozen=True)
class Decision:
    """The controller says which policy an `origin` is; whoever decides without one says it at once."""

    origin: Origin = field(default=ByPolicy(), kw_only=True)

    @property
    def by_policy(self) -> bool:
        return isinstance(self.origin, ByPolicy)


@dataclass(frozen=True)
class SpillGroups(Decision):
    """Close the live generations of these groups and make them cold, the first one first. May be none."""

    groups: tuple[GroupKey, ...]
    reason: str


@dataclass(frozen=True)
class SpillAggregates(Decision):
    """Make all that a group-by keeps cold: so many bytes, which are read at boundaries and owe nothing."""

    bytes: int
    reason: str


@dataclass(frozen=True)
class CutGroup(Decision):
    """Cut a group in two, the second of which begins at this hash: of this operator, and of all on its partitioning."""

    operator: OperatorName
    group: int
    partitioning: Partitioning
    at_hash: int
    before_batch: int
    reason: str


Move = tuple[OperatorName | Partitioning, int, int]  # a group of an operator or partitioning, and the slot it goes to


@dataclass(frozen=True)
class MoveGroups(Decision):
    """Have other slots own these groups: of these operators, and of all on their partitionings. No row is moved."""

    moves: tuple[Move, ...]
    before_batch: int
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)  # that it was decided by, and what is expected of it


@dataclass(frozen=True)
class CountPushed(Decision):
    """So much of what is cold a slot was made to spill for others, with what is decided along with this."""

    bytes: int


@dataclass(frozen=True)
class SpreadGroup(Decision):
    """Have several slots work on a group: deal out the rows of the inputs that have `alias`, and copy all others'."""

    operator: OperatorName
    group: int
    alias: str
    slots: tuple[int, ...]
    before_batch: int
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)  # as of moves


@dataclass(frozen=True)
class DrawTogether(Decision):
    """Leave a group that was spread to its owner."""

    operator: OperatorName
    group: int
    before_batch: int
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ReviewMoves(Decision):
    """How moves of groups, or a spread of one, turned out."""

    reason: str
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Rescale(Decision):
    """Have so many slots from now on. No row is moved."""

    from_slots: int
    slots: int
    before_batch: int
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)  # that it was decided by, and what is expected of it
    review: ReviewRescale | None = None  # that it is the consequence of: the last number of slots did not pay


@dataclass(frozen=True)
class ReviewRescale(Decision):
    """How another number of slots turned out; whether these were of no use."""

    reason: str
    figures: Mapping[str, Any]
    no_use: bool = False


@dataclass(frozen=True)
class ResizeRing(Decision):
    """Have slices of time lie over so many slots, the first ones; these groups go at once. No row is moved."""

    from_slots: int
    slots: int
    moves: tuple[Move, ...]
    before_batch: int
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)  # that it was decided by, and what is expected of it
    review: ReviewRing | None = None  # that it is the consequence of: the last length did not pay


@dataclass(frozen=True)
class ReviewRing(Decision):
    """How another length of a ring turned out; whether that was of no use."""

    reason: str
    figures: Mapping[str, Any]
    no_use: bool = False


@dataclass(frozen=True)
class CannotSpill(Decision):
    """The budget is passed, and nothing can be done about it."""

    reason: str


@dataclass(frozen=True)
class MergeGroup(Decision):
    """Emit what the closed generations of a group owe each other, with the live one closed first if `with_live`.

    `waiting` are the operators that a paper would have wait meanwhile; see `policies/merge/state_manager.py`.
    """

    operator: OperatorName
    group: int
    reason: str
    waiting: tuple[OperatorName, ...] = ()
    with_live: bool = True


@dataclass(frozen=True)
class MergeGenerations(Decision):
    """Emit what these closed generations owe each other in groups of an operator; they become part of the newest."""

    operator: OperatorName
    generations: tuple[Generation, ...]
    within: tuple[GroupRange, ...]
    reason: str


@dataclass(frozen=True)
class CloseLive(Decision):
    """Close the live generations of these groups, to make room for merges of their operator."""

    groups: tuple[GroupKey, ...]
    reason: str


@dataclass(frozen=True)
class ExpectResults(Decision):
    """So many results are expected of the merges that are decided with this, all of one operator."""

    operator: OperatorName
    results: float


@dataclass(frozen=True)
class UniteParts(Decision):
    """Write these parts of a cold generation down as one. Nothing is emitted: they are complete among themselves."""

    state: StateName
    generation: Generation
    parts: tuple[SegmentId, ...]


@dataclass(frozen=True)
class ChangePlan(Decision):
    """Go over to another plan, by one of the ways of `policies/migrate/`, before batch `before_batch`."""

    plan: str  # as a setting has it
    by: str
    before_batch: int
    reason: str
    figures: Mapping[str, float] = field(default_factory=dict)  # that it was decided by
    found_by: str = ""  # how the plan was come to, where nobody named it
    within: Groups | None = None  # the groups that are to have it; None: all
    review: ReviewPlan | None = None  # of the last change, if that was due


@dataclass(frozen=True)
class ReviewPlan(Decision):
    """How a change of the plan turned out."""

    plan: str
    reason: str
    figures: Mapping[str, float]


@dataclass(frozen=True)
class LookAtPlan(Decision):
    """A look at the plan found this; see `policies/replan/looks.py` and `library.py`."""

    look: Mapping[str, Any]
    reviewed: bool = False  # what was expected of the last change has been compared
    library: tuple[Mapping[str, Any], ...] | None = None  # None: as it was
    search_seconds: float | None = None  # that a full search is thought to take now; None: as before


@dataclass(frozen=True)
class BeginMigration(Decision):
    """A change of the plan is under way, which `ChangePlan` will be the end of."""

    plan: str
    by: str
    before_batch: int
    reason: str


@dataclass(frozen=True)
class MigrationAbandoned(Decision):
    """A change of the plan came to nothing, and the former plan goes on."""

    plan: str
    by: str
    before_batch: int
    reason: str
    within: Groups | None = None
    asked: str = ""  # the plan, as it was named


@dataclass(frozen=True)
class CannotForce(Decision):
    """Groups that a forced step names are not there: the plan is another than was thought of when the run began."""

    before_batch: int
    reason: str


# What users are shown; the others are means to the end of these.
SHOWN = (
    ReviewPlan,
    SpillGroups,
    SpillAggregates,
    CutGroup,
    MoveGroups,
    SpreadGroup,
    DrawTogether,
    ReviewMoves,
    Rescale,
    ReviewRescale,
    ResizeRing,
    ReviewRing,
    CannotSpill,
    CannotForce,
    MergeGroup,
    MergeGenerations,
)


@dataclass(frozen=True)
class Work:
    """What the tasks of the next batch, or of a round, are to do beside joining new rows."""

    merges: tuple[GroupKey, ...] = ()  # of all their closed generations
    unites: tuple[UniteParts, ...] = ()
    partial_merges: tuple[MergeGenerations, ...] = ()  # of some closed generations of groups

    def __bool__(self) -> bool:
        return bool(self.merges or self.unites or self.partial_merges)


def to_json(decision: Decision) -> dict[str, Any]:
    """A decision for the manifest. What it says of the decision before it is recorded apart.

    >>> found = to_json(SpillGroups(((OperatorName("A*B#1"), 17),), "least output"))
    >>> found["decision"], found["groups"], found["reason"], found["origin"]
    ('SpillGroups', [['A*B#1', 17]], 'least output', {'by': 'policy', 'name': ''})
    """
    names = [entry.name for entry in fields(decision) if entry.name not in ("origin", "review")]
    values = {name: _plain(getattr(decision, name)) for name in names}
    return {"decision": type(decision).__name__, **values, "origin": origin_to_json(decision.origin)}


def record_change(told: Mapping[str, Any]) -> RecordDecision:
    """The update that records a change of the plan, its beginning or its failure: no step asks for it a second time."""
    within = told["within"]
    groups = None if within is None else ranges_from_json(within)
    origin = origin_from_json(told["origin"])
    return RecordDecision(told, Taken(PLAN, told["before_batch"], origin, told["asked"], groups))


def _plain(value: Any) -> Any:
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


def for_people(decision: Mapping[str, Any], label: Callable[[OperatorName], str]) -> dict[str, Any]:
    """A decision of the manifest with what people call its operators.

    >>> for_people({"decision": "SpillGroups", "groups": [["A*B#1", 17]], "reason": ""}, lambda name: "J1")["groups"]
    [['J1', 17]]
    """
    told = dict(decision)
    if "groups" in told:
        told["groups"] = [[label(operator), group] for operator, group in told["groups"]]
    if "moves" in told:
        told["moves"] = [[label(operator), group, slot] for operator, group, slot in told["moves"]]
    if "operator" in told:
        told["operator"] = label(told["operator"])
    if "waiting" in told:
        told["waiting"] = [label(operator) for operator in told["waiting"]]
    return told
