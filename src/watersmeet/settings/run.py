"""The section `[run]`, and what both runtimes are told about a run, which follows from it and from `[adapt]`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.intake import BatchSettings
from watersmeet.model.placement import DEFAULT_GROUPS, DEFAULT_SLOTS, check_slots
from watersmeet.model.quantities import microseconds, parse_cores
from watersmeet.optimize.cost import Limits
from watersmeet.optimize.query_graph import Statistics
from watersmeet.settings.adapt import AdaptSection, AdaptSettings
from watersmeet.settings.declaration import Surface, setting
from watersmeet.settings.kinds import (
    Duration,
    Folder,
    Kind,
    OneOf,
    Place,
    RowLimit,
    Size,
    SizeLimit,
    Whole,
    expect,
    expect_list,
)
from watersmeet.settings.plan import PlanSettings
from watersmeet.settings.words import AUTO, OFF
from watersmeet.state.retention import VERSIONS_KEPT, Retention
from watersmeet.state.syncing import DURABILITIES

LOCAL, SPARK = "local", "spark"
AVAILABLE_NOW = "available-now"
CLOSE, WAIT = "close", "wait"  # what the end of a finite input means to results that wait for watermarks

_NO_CHECKPOINT = {
    Surface.PYTHON: 'State is in memory and ends with the call; a job file with runtime = "local" keeps it.'
}
_SOURCE_CUTS = {
    Surface.SPARK: "Spark's source cuts its batches: set its own option on readStream, such as maxFilesPerTrigger."
}


class Cores(Kind[float]):
    python: ClassVar[str] = "float"

    def read(self, value: Any, place: Place) -> float:
        return self._parse(expect(value, (int, float), place))

    def read_option(self, value: Any, place: Place) -> float:
        return self._parse(value if isinstance(value, int | float) else str(value))

    def _parse(self, value: float | str) -> float:
        cores = parse_cores(value)
        assert cores is not None, "there is a value"
        return cores

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "exclusiveMinimum": 0}


class Weights(Kind[tuple[float, ...]]):
    """A number for each slot."""

    python: ClassVar[str] = "Sequence[float]"

    def read(self, value: Any, place: Place) -> tuple[float, ...]:
        weights = expect_list(value, place)
        if not all(isinstance(weight, int | float) and not isinstance(weight, bool) for weight in weights):
            raise JobError(f'"slot_weights" is {list(weights)!r}', detail="It is a list of numbers such as [1, 0.5].")
        return tuple(map(float, weights))

    def read_option(self, value: Any, place: Place) -> tuple[float, ...]:
        if isinstance(value, list | tuple):
            return self.read(value, place)
        try:
            return self.read([float(word) for word in str(value).split(",") if word.strip()], place)
        except ValueError:
            raise JobError(
                f'{place.name} "{value}" are not numbers', detail='They are separated by commas, as in "1, 0.5".'
            ) from None

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}, "minItems": 1}


class Trigger(Duration):
    """How often a batch starts; `available-now`, None, for all there is at once, and then the end."""

    def read(self, value: Any, place: Place) -> Any:
        if expect(value, (str,), place) == AVAILABLE_NOW:
            return None
        try:
            return super().read(value, place)
        except JobError as error:
            raise JobError(
                f'{place.name} "{value}" is neither "{AVAILABLE_NOW}" nor a duration',
                detail=error.detail,
                hint=did_you_mean(value, [AVAILABLE_NOW]) or error.hint,
            ) from None

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "const": AVAILABLE_NOW}, super().schema()]}


@dataclass(frozen=True)
class RunSection:
    """`[run]`. `memory` is in bytes and `cores` for planning, None = unlimited; `trigger` None = all, then end."""

    runtime: str = setting(
        OneOf((SPARK, LOCAL)),
        SPARK,
        "Where the job runs.",
        more="`spark`, or `local`: in this process, without a JVM.",
        elsewhere={
            Surface.SPARK: "A query over streaming DataFrames runs on Spark.",
            Surface.PYTHON: "A query over Arrow data runs in this process.",
        },
    )
    checkpoint: str | None = setting(
        Folder(),
        None,
        "The folder for state and progress.",
        more="See [below](#where-folders-may-be). Without it, a local run starts afresh each time.",
        unset="required for `spark`",
        option="checkpointLocation",
        elsewhere=_NO_CHECKPOINT,
    )
    slots: int = setting(Whole(), DEFAULT_SLOTS, "The number of tasks for each stage and batch.", more="1 or more.")
    groups: int = setting(
        Whole(),
        DEFAULT_GROUPS,
        "The number of parts of the key space, the unit that is spilled and moved.",
        more="Not fewer than `slots`, and at most 65,536. A checkpoint that has [more or fewer](#another-plan) changes "
        "to this number.",
    )
    memory: int | None = setting(
        Size(),
        None,
        "The budget for active state, all slots together.",
        more='Example: `"256MB"`; 1 KB is 1024 bytes. See below.',
        unset="unlimited",
    )
    slot_memory: int | None = setting(
        Size(),
        None,
        "The budget for the active state of each slot; a spill takes from the slot that is over.",
        more="May stand beside `memory`.",
        unset="unlimited",
    )
    slot_weights: tuple[float, ...] | None = setting(
        Weights(),
        None,
        'How strong each slot is, for `balance = "time"`.',
        more="One number for each slot: `[1, 0.5]` for a second one that is half as fast.",
        unset="as measured",
    )
    cores: float | None = setting(
        Cores(),
        None,
        "How many cores the chosen plan may be estimated to need.",
        more="Example: `1.5`. For planning alone.",
        unset="unlimited",
    )
    trigger: timedelta | None = setting(
        Trigger(),
        None,
        "When a batch starts.",
        more='`available-now` reads all there is, then ends; `"1 second"` starts a batch so often.',
        unset='`"available-now"`',
        elsewhere={
            Surface.SPARK: 'Use .trigger(processingTime="1 second").',
            Surface.PYTHON: "Data in memory is read as fast as it is joined; scale_seconds and ring_seconds say what a "
            "batch may take.",
        },
    )
    cache: str | None = setting(
        Folder(),
        None,
        "A local folder for copies of segments that are on an object store.",
        more="The default one must be yours, and nobody else may write to it. A copy that was not opened for an hour "
        "is "
        'dropped. Example: `"/tmp/watersmeet"`.',
        unset="`watersmeet-cache-` and your user id, in the folder for temporary files",
        elsewhere=_NO_CHECKPOINT,
    )
    at_end: str = setting(
        OneOf((CLOSE, WAIT)),
        CLOSE,
        "What the end of a finite input does to results that wait for watermarks.",
        more="These are [boundaries of groups](query-language.md#groups) and [windows of "
        "rows](query-language.md#windows-of-rows). `close`: all come out, since no row will come any more. `wait`: "
        "they wait for the next run, as they should where a schedule runs the job again and again on new data; it "
        "takes a `checkpoint`.",
        elsewhere=_NO_CHECKPOINT,
    )
    durability: str = setting(
        OneOf(DURABILITIES),
        DURABILITIES[0],
        "What a committed batch survives on a local disk: `power-loss`, or only the end of the `process`.",
        more="The second does not wait for the disk. See below.",
        elsewhere=_NO_CHECKPOINT,
    )
    keep_versions: int = setting(
        Whole(),
        VERSIONS_KEPT,
        "How many versions of the state can be gone back to.",
        more="1 or more. See below.",
        elsewhere=_NO_CHECKPOINT,
    )
    keep_for: timedelta | None = setting(
        Duration(),
        None,
        "For how long versions can be gone back to, beside that number.",
        more='Example: `"2 hours"`.',
        unset="none",
        elsewhere=_NO_CHECKPOINT,
    )
    max_batch_rows: int | str | None = setting(
        RowLimit(),
        None,
        "The most rows that a batch takes of each stream.",
        more="See [below](#large-batches).",
        unset='`"off"`',
        elsewhere=_SOURCE_CUTS,
    )
    max_batch_bytes: int | str | None = setting(
        SizeLimit(),
        None,
        "The most bytes that a batch takes of each stream.",
        more='`"off"` for no limit. On Spark, off unless it is set.',
        unset='`"32MB"` with `runtime = "local"`',
        elsewhere=_SOURCE_CUTS,
    )

    def __post_init__(self) -> None:
        check_slots(self.slots, self.groups)
        if self.slot_weights is not None and len(self.slot_weights) != self.slots:
            raise JobError(
                f'"slot_weights" has {len(self.slot_weights)} numbers, and there are {self.slots} slots',
                detail="There is one for each slot, in their order.",
            )

    @property
    def limits(self) -> Limits:
        """What a plan may cost."""
        return Limits(self.cores or math.inf, self.memory or math.inf)

    @property
    def retention(self) -> Retention:
        return Retention(self.keep_versions, None if self.keep_for is None else microseconds(self.keep_for))

    @property
    def batch(self) -> BatchSettings:
        return BatchSettings(self.max_batch_rows, self.max_batch_bytes)


@dataclass(frozen=True)
class RunSettings:
    """What both runtimes are told about a run."""

    plan: PlanSettings = PlanSettings()  # noqa: RUF009 - frozen
    memory: AdaptSettings = AdaptSettings()  # noqa: RUF009 - frozen
    slots: int = DEFAULT_SLOTS
    groups: int = DEFAULT_GROUPS
    retention: Retention = Retention()  # noqa: RUF009 - frozen
    max_candidates: int | None = None  # pairs that a task may compare in a batch where no equality says which

    def __post_init__(self) -> None:
        self.plan.ring.check_slots(min(self.memory.ring.slots or self.slots, self.slots))


def run_settings(run: RunSection, adapt: AdaptSection, statistics: Statistics | None = None) -> RunSettings:
    """What the sections `[run]` and `[adapt]` mean together, with what is known of the streams."""
    given = adapt.settings
    settings = replace(
        given,
        budget_bytes=run.memory,
        slot_bytes=run.slot_memory,
        replan=given.replan.for_plan(adapt.plan),
        balance=replace(given.balance, weights=run.slot_weights or (), by_cpu=run.runtime == LOCAL),
        scale=given.scale.following(run.trigger, run.slots),
        ring=given.ring.following(run.trigger, run.slots),
    )
    plan = AUTO if adapt.plan == OFF else adapt.plan  # to switch the plan off leaves the choice at the start
    chosen = PlanSettings(plan, statistics, run.limits, adapt.ring_way)
    return RunSettings(chosen, settings, run.slots, run.groups, run.retention, adapt.max_candidates)
