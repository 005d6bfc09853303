"""Everything that a run can do next, as data. The file named with each kind says how it is taken.

A step changes the session, and may commit. It returns the steps that must follow before anything else happens, and
never calls the loop: the loop alone takes steps (`loop.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from watersmeet.adapt.decisions.change_plan import ChangePlan
from watersmeet.adapt.decisions.outcome import Outcome
from watersmeet.adapt.decisions.work import Work
from watersmeet.adapt.outlook import Moment
from watersmeet.adapt.policies.migrate import road
from watersmeet.errors import InternalError
from watersmeet.model.origin import Origin
from watersmeet.model.routing import Groups
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.run.ending import Ending
from watersmeet.runtime.context import BatchContext
from watersmeet.runtime.reports import Backlog, StreamReport, TaskReport
from watersmeet.start.start_plan import PlanChange
from watersmeet.state.manifest import Track

if TYPE_CHECKING:
    from watersmeet.run.session import Session


class Step:
    """Base of all steps."""


@dataclass(frozen=True)
class Taken:
    """A step has been taken: which steps follow at once, what became of a decision, whether anything was done."""

    then: tuple[Step, ...] = ()
    outcome: Outcome | None = None
    worked: bool = False  # a round ran, or a change of the plan went a step further


@singledispatch
def take(step: Step, session: Session[Any]) -> Taken:
    """Take a step."""
    raise InternalError(f"no way to take a {type(step).__name__}")


# --- delivery: `deliver.py` -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gather(Step):
    """Write results that have waited long enough as few files, so that they can be delivered."""

    at_once: bool = False


@dataclass(frozen=True)
class Deliver(Step):
    """Deliver what is committed and does not wait to be gathered, the oldest first."""


def deliver_all(at_once: bool = False) -> tuple[Step, ...]:
    """Deliver everything that is committed; results of this run that are gathered wait longer, unless `at_once`."""
    return Gather(at_once), Deliver()


# --- decisions: `ask.py` ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ask(Step):
    """Ask the policies until nothing changes that all must be asked about again; the step `then` gets the work.

    A cut, a placement or a change of the plan is carried out alone, since it is what all other policies go by. `within`
    limits what policies see of groups.
    """

    moment: Moment
    within: Groups | None = None
    then: RunBatch | RunRound | None = None


# --- batches and rounds: `batch.py` -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunBatch(Step):
    """Join the rows of `source` with the rows that are kept."""

    source: Any
    started: float
    work: Work = Work()  # noqa: RUF009 - frozen and empty


@dataclass(frozen=True)
class RunRound(Step):
    """Work without new rows: merges, due boundaries, rows that waited. `then` follows if there was any."""

    ending: Ending | None  # how much of the input has been seen; None: a batch may be next
    started: float
    work: Work = Work()  # noqa: RUF009 - frozen and empty
    then: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Conclude(Step):
    """Learn from tasks whose results are delivered, and have policies asked what is too much in memory now."""

    context: BatchContext
    streams: Sequence[StreamReport]
    tasks: Sequence[TaskReport]
    started: float  # of all that belongs to the batch
    begun: float  # of the tasks
    commit_seconds: float
    sync_seconds: float


@dataclass(frozen=True)
class Announce(Step):
    """Report a batch or a round to the user, and tidy up."""

    batch: Conclude
    seconds: float
    backlogs: Mapping[str, Backlog]


@dataclass(frozen=True)
class Tidy(Step):
    """Write a snapshot if one is due, and delete unneeded files."""


# --- what is owed: `settle.py` ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settle(Step):
    """Emit everything that is owed, by these groups or by all, in as many rounds as that takes."""

    ending: Ending
    within: Groups | None = None
    once: bool = False  # a single round


# --- another plan: `set_out.py`, `migrate.py` -------------------------------------------------------------------------


@dataclass(frozen=True)
class Needed:
    """A change that the run cannot do without: the error that ends the run if the change comes to nothing."""

    primary: str
    hint: str


@dataclass(frozen=True)
class SetOut(Step):
    """Set out for another plan; if there is nothing to wait for, the run is there at once.

    `asked` has the plan that the run was started with, which may be of another query.
    """

    change: ChangePlan
    asked: PlanChange | None = None
    needed: Needed | None = None


@dataclass(frozen=True)
class Unite(Step):
    """Have all groups run one shape, the first of those that there are, before the next batch."""

    reason: str
    origin: Origin


@dataclass(frozen=True)
class Leave(Step):
    """Take the first step to a plan that is laid out."""

    change: ChangePlan
    track: Track
    plan: PhysicalPlan
    needed: Needed | None = None
    by: road.Road | None = None  # None: as the change says


@dataclass(frozen=True)
class Migrate(Step):
    """Take the next steps of a change under way, as far as its road likes.

    The sources have been silent for so long; None: a batch is next.
    """

    silent_seconds: float | None = None


@dataclass(frozen=True)
class TakeIn(Step):
    """Have the new track take rows in, up to where `step` says. An attempt."""

    track: Track
    step: road.Advance


@dataclass(frozen=True)
class Switch(Step):
    """Have the new track answer from the next batch on, once nothing is owed. An attempt."""

    track: Track
    started: float
    answering: tuple[Track, ...]  # when the attempt began
    cuts: object  # of all groups, then
    under_way: bool  # whether the manifest knew the track then
    needed: Needed | None = None


# --- what a start asks for: `change_as_asked.py` ----------------------------------------------------------------------


@dataclass(frozen=True)
class ChangeAsAsked(Step):
    """Change to the query, the plan and the number of groups that the run was started with, once."""


@dataclass(frozen=True)
class Regroup(Step):
    """Have so many groups, with what is owed emitted first."""

    groups: int
    settled: bool = False


# A lack of room or a broken file ends one of these, and not the run.
ATTEMPTS = (TakeIn, Switch)


def with_work(step: RunBatch | RunRound, work: Work) -> Step:
    return replace(step, work=work)
