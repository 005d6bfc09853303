"""What policies have learned, as the manifest keeps it: policies keep nothing themselves, so a restart forgets nothing.

Data alone. `adapt/trials.py` says what becomes of trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from watersmeet.model.slot_figures import Slots
from watersmeet.model.statistics import Measured

# Kinds of trials: what was changed.
PLAN, SLOTS, RING, BALANCE, SPILL, MERGE = "plan", "slots", "ring", "balance", "spill", "merge"

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Trial:
    """A change that has been made, and what it was expected to bring. One of a kind, and of a part, at a time."""

    kind: str
    what: str  # was tried: a plan, a number of slots
    at_batch: int  # the first one that it holds for
    before: Figures  # what was measured when it was decided
    expected: Figures  # of these figures
    of: str = ""  # the part that it is about, such as an operator; empty: the whole run
    from_size: int = 0  # of slots, where their number was changed, or that of the slots of a ring
    size: int = 0
    notes: Figures = field(default_factory=dict)  # what else is shown to people


@dataclass(frozen=True)
class Lesson:
    """What the trials of one kind, and of one part, have come to: the last one, and how many in a row did not pay."""

    trial: Trial
    found: Figures
    paid: bool
    in_vain: int = 0
    useless_size: int | None = None  # so many slots, or more, have been of no use
    useless_load: float = 0.0  # with so much to do in a batch

    @property
    def ratio(self) -> float:
        """How much of the first figure that was expected has come."""
        name, expected = next(iter(self.trial.expected.items()))
        return max(self.found[name], 1.0) / max(expected, 1.0)


@dataclass(frozen=True)
class Look:
    """What a look at the plan found: after which batch, the figures that plans are chosen by, and since when.

    `since` is the batch at which figures were last found to have changed by more than the threshold; `changes` counts
    how often they did. If figures go on changing from look to look, away from those that they began with (`origin`),
    this is one change; if they turn back, it is another. `asked` are the figures that a better plan was last looked for
    with. `waits`: another plan was found to be better, and not to be worth the price of a change, yet.
    """

    batch: int
    figures: Figures
    since: int
    changes: int = 0
    waits: bool = False
    asked: Figures = field(default_factory=dict)
    origin: Figures = field(default_factory=dict)

    @property
    def life(self) -> float:
        """Batches that figures are expected to stay as they are: as many as they have been so, now or on average."""
        return max(self.batch - self.since, self.batch / (self.changes + 1))


@dataclass(frozen=True)
class Resizing:
    """A ring on its way to another length, some groups with each batch."""

    from_slots: int
    slots: int
    at_batch: int  # the last one that groups went before
    groups_left: int


@dataclass(frozen=True)
class Learned:
    batch_seconds: float = 1.0  # duration of the last batch
    trials: tuple[Trial, ...] = ()  # that are not reviewed yet
    lessons: tuple[Lesson, ...] = ()
    look: Look | None = None  # the last one at the plan
    roads: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # what changes of the plan took, by way
    recent: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # figures after each of the last batches
    search_seconds: float = 0.0  # duration of a full search for a plan; 0: none was timed yet
    slots: Slots = ()  # recent figures of batches, by slot
    pushed_bytes: int = 0  # that slots were made to spill for others; see `policies/balance/active_disk.py`
    resizing: Resizing | None = None
    by_slot: tuple[Measured, ...] = ()  # what each slot has measured of its own rows, where plans are chosen by it
    placed_before: int | None = None  # the batch before which slots came or went, or groups were cut, moved or spread
    moved_us: int | None = None  # when a policy last moved groups, where it has to wait for a time
    cannot_spill: bool = False  # nothing could be spilled the last time, and users were told so
