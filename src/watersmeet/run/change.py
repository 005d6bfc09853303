"""A change of the plan that is under way: what it heads for, how fast it goes, and what its road sees of it.

A change is the life of a second track, which is silent: until the switch the old one answers, for all rows. The new one
takes in the rows that the old one keeps (`runtime/seeding.py`), in as many steps as its road likes. What it makes lies
among the segments of the checkpoint, cold, since no batch probes it. Each step is a commit, so a run that dies resumes
where it was. The switch is one commit too:

- First all that is owed is emitted. Then every group of the old plan has one generation, and each of its states holds
  all that it should: so does each state that the new plan takes over, and each that was made from these.
- So no result among the rows of a group is missing, in any group of any join of the new plan: they are one generation
  there as well, the live one. What is too much for the budget is spilled at once, as ever.

If all inputs share a key, a change may be of some groups alone, and groups may have had shapes of their own before. A
group has all rows that can join with each other, so all of the above holds of groups as it does of the whole: what they
owe is emitted, what they hold is matched, dropped or made, and they switch. What the new plan takes, it takes from each
of the shapes that the groups had: each is a *part* of the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from watersmeet.adapt.decisions.change_plan import ChangePlan, MigrationAbandoned, record_change
from watersmeet.adapt.decisions.outcome import Abandoned
from watersmeet.adapt.policies.migrate.road import Standing
from watersmeet.model.ids import StateName
from watersmeet.model.origin import origin_from_json
from watersmeet.model.routing import Groups, groups_text
from watersmeet.model.segments import Segment, ranges_from_json
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.matching import Matching, match_plans
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.plan.query import Query
from watersmeet.runtime.seeding import Seeding
from watersmeet.runtime.watermarks import watermarks_us
from watersmeet.state.expiry import horizon_us
from watersmeet.state.manifest import Manifest, Track, Warming
from watersmeet.state.shapes import shapes_of, shared_out
from watersmeet.state.updates import ReleaseGroups, SetTracks, StatePart, Update

if TYPE_CHECKING:
    from watersmeet.run.session import Session


class Part(NamedTuple):
    """Groups that had one shape, None for all, and what the plan that is to take over has in common with that."""

    former: PhysicalPlan
    matching: Matching
    within: Groups | None

    def states(self, names: Iterable[StateName]) -> list[StatePart]:
        """Return these states, in these groups."""
        return [(name, self.within) for name in names]

    def held(self, state: StateName, manifest: Manifest) -> list[Segment]:
        """Return what there is of a state in the groups of this part."""
        held = list(manifest.segments.of_state(state))
        if self.within is None:
            return held
        return [found for segment in held if (found := segment.only(self.within)).groups]


class Target(NamedTuple):
    """The plan that is to take over, and what it takes from those that answer."""

    plan: PhysicalPlan
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, plan: PhysicalPlan, within: Groups | None, query: Query, manifest: Manifest) -> Target:
        """Match a plan for these groups, None for all, with the plans that `manifest` answers `query` with."""
        former = shared_out(shapes_of(query, manifest), within)
        return cls(plan, tuple(Part(shape.plan, match_plans(shape.plan, plan), shape.within) for shape in former))

    @property
    def at_once(self) -> bool:
        return any(part.matching.at_once for part in self.parts)

    def count(self, states: Callable[[Matching], tuple[StateName, ...]]) -> int:
        """Count the states, whatever groups they are of."""
        return len({state for part in self.parts for state in states(part.matching)})

    def sources(self) -> Iterator[tuple[Part, State]]:
        """Yield the states of the answering plan that the new one takes rows from, in the groups of each part."""
        for part in self.parts:
            fed = (port.source.name for port in part.matching.ports)
            for name in dict.fromkeys((*part.matching.kept, *fed)):
                yield part, part.former.states[name]

    def seedings(self, manifest: Manifest, seen: Warming, upto: int, cursor: int | None = None) -> list[Seeding]:
        """Return what a step takes in, of each part."""
        return [Seeding(self.plan, manifest, part.matching, seen, upto, cursor, part.within) for part in self.parts]


@dataclass
class Pace:
    """How fast steps and batches go, as far as this run has seen it: it decides how much a step takes, and no more."""

    rows_a_second: float = 0.0  # that the last step took in; 0: there was none
    left: int | None = None  # rows since the round under way began, when steps were last taken; None: unknown
    batch: int = -1  # the last one then
    batch_rows: int = 0  # that it brought
    taken_before: int = 0  # rows that had been taken in when it came
    usual: float | None = None  # seconds from result to result before the change began, which it makes longer itself

    def notice(self, batch: int, new_rows: int, taken: int) -> None:
        """Notice a batch since the last step: `new_rows` are there now, and `taken` were taken in before."""
        if batch != self.batch:
            self.batch_rows = 0 if self.left is None else max(0, new_rows - self.left)
            self.batch, self.taken_before = batch, taken


class Changing:
    """What a run remembers of a change under way. The manifest has all that a restart needs."""

    def __init__(self, query: Query, manifest: Manifest) -> None:
        track = manifest.warming_up
        plan = None if track is None else lay_out_spec(query, track.spec)
        self.target = None if track is None or plan is None else Target.of(plan, track.within, query, manifest)
        self.pace = Pace()
        self.waits_for = ""

    @property
    def heading(self) -> Target:
        assert self.target is not None
        return self.target


def warming_of(track: Track) -> Warming:
    assert track.warming is not None
    return track.warming


def change_of(track: Track) -> ChangePlan:
    """Return the change that a track is for."""
    told = warming_of(track).change
    within = told.get("within")  # as it was asked for, which may have been by naming all groups
    return ChangePlan(
        told["plan"],
        told["by"],
        told["before_batch"],
        told["reason"],
        within=None if within is None else ranges_from_json(within),
        origin=origin_from_json(told["origin"]),
    )


def arrived(manifest: Manifest) -> int:
    """Return the delivery that the answering track has reached."""
    return manifest.next_delivery - 1


def progress(session: Session[Any]) -> Mapping[str, Any] | None:
    """Return how far a change under way has come, for people; None if there is none."""
    track = session.manifest.warming_up
    if track is None or track.warming is None:
        return None
    seen = track.warming
    return {
        "plan": str(track.spec.tree),
        "groups": None if track.within is None else groups_text(track.within),
        "by": seen.by,
        "rows": seen.rows,
        "seconds": round(seen.seconds, 6),
        "seeded": round(seen.share, 4),
        "behind": max(0, arrived(session.manifest) - (seen.done if seen.share == 1.0 else seen.start)),
        "waits_for": session.changing.waits_for,
    }


# --- a change that ends without a switch ------------------------------------------------------------------------------


def abandon(session: Session[Any], why: str) -> Abandoned:
    """Drop the change that is under way, with all that it has made."""
    manifest = session.manifest
    track = manifest.warming_up
    assert track is not None
    dropped: list[Update] = [
        ReleaseGroups(segment.id, segment.groups)
        for part in session.changing.heading.parts
        for state in part.matching.made
        for segment in part.held(state, manifest)
    ]
    return abandon_track(session, track, why, SetTracks(manifest.shapes), *dropped)


def abandon_track(session: Session[Any], track: Track, why: str, *updates: Update) -> Abandoned:
    """Commit that the change which a track is for came to nothing."""
    return record_abandoned(session, change_of(track), why, *updates, asked=warming_of(track).change["asked"])


def record_abandoned(
    session: Session[Any], change: ChangePlan, why: str, *updates: Update, asked: str | None = None
) -> Abandoned:
    """Commit that a change came to nothing, with what undoes it. `asked` names the plan as it was asked for."""
    reason, name = f"{change.reason}: {why}", asked or change.plan
    batch, origin = change.before_batch, change.origin
    decision = MigrationAbandoned(change.plan, change.by, batch, reason, change.within, name, origin=origin)
    session.commit([*updates, record_change(decision.to_json())])
    return Abandoned(reason, session.tell_last())


# --- what roads see ---------------------------------------------------------------------------------------------------


def standing_of(session: Session[Any], track: Track, silent_seconds: float | None = None) -> Standing:
    """Return what the road of a track sees."""
    seen, pace, (old_rows, new_rows) = warming_of(track), session.changing.pace, rows_of(session, track)
    rhythm, now = session.rhythm, session.clock.now()
    batch_seconds = max(rhythm.long or 0.0, session.learned.batch_seconds)
    return Standing(
        seen,
        arrived(session.manifest),
        old_rows,
        new_rows,
        pace.batch_rows,
        batch_seconds,
        silent_seconds,
        pace.usual or batch_seconds,
        0.0 if rhythm.last is None else now - rhythm.last,
        _slowest_stream(session),
        seen.rows - pace.taken_before,
        pace.rows_a_second,
        session.changing.heading.at_once,
    )


def rows_of(session: Session[Any], track: Track) -> tuple[int, int]:
    """Return the rows still needed: of the round under way, or of before a track that skips these; and since then."""
    seen, old_rows, new_rows = warming_of(track), 0, 0
    low = -1 if seen.skips else seen.done
    for part, state in session.changing.heading.sources():
        until = _horizon_us(session, state)
        for segment in part.held(state.name, session.manifest):
            if segment.delivery > max(seen.start, seen.done):
                new_rows += segment.live_rows
            elif low < segment.delivery <= seen.start and (until is None or segment.max_expiry_us > until):
                old_rows += segment.live_rows
    return old_rows, new_rows


def held_and_coming_bytes(session: Session[Any]) -> tuple[float, float]:
    """Return what the parts that miss something hold of what it is made from, and what a window brings them."""
    query, manifest = session.plan.query, session.manifest
    held = coming = 0.0
    for part, state in session.changing.heading.sources():
        if not part.matching.made:
            continue
        parts = part.held(state.name, manifest)
        held_bytes, rows = sum(found.live_bytes for found in parts), sum(found.live_rows for found in parts)
        held += held_bytes
        width = query.reach.kept_for_us(state.aliases[0])
        if len(state.aliases) == 1 and rows and width is not None:
            everywhere = sum(found.live_rows for found in manifest.segments.of_state(state.name))
            rate = (manifest.measured.rate(state.aliases[0]) or 0.0) * rows / everywhere
            coming += rate * max(0, width) / 1e6 * held_bytes / rows
    return held, coming


def _horizon_us(session: Session[Any], state: State) -> int | None:
    return horizon_us(session.plan, state, watermarks_us(session.plan, session.manifest), {})


def _slowest_stream(session: Session[Any]) -> str:
    marks = watermarks_us(session.plan, session.manifest)
    return min(marks, key=lambda name: (marks[name] is not None, marks[name] or 0), default="")
