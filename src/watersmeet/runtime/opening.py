"""How a run begins, on both runtimes: takes hold of its checkpoint, or makes one, and lays out the plan it holds."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace

from watersmeet.adapt.controller import Controller
from watersmeet.adapt.policies.check_forced import check_steps
from watersmeet.config import Job
from watersmeet.errors import CheckpointError, StateConflictError
from watersmeet.model.placement import Placement
from watersmeet.model.slices import BY_TIME
from watersmeet.optimize.allocate import SPREAD, allocate, load_factors
from watersmeet.optimize.choose import ChosenPlan
from watersmeet.optimize.query_graph import Statistics
from watersmeet.optimize.ring_length import ring_length
from watersmeet.optimize.strategies import STRATEGIES
from watersmeet.plan.changed_query import missing_columns
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.plan.spec import PlanSpec, going_on, spec_of, tree_for, way_of
from watersmeet.plan.tree import still_weighed
from watersmeet.runtime.checkpoint import (
    Checkpoint,
    first_manifest,
    hold,
    in_memory,
    new_name,
    newest_manifest,
    placed_anew,
    prepare_to_take,
    retention_changed,
    this_run,
)
from watersmeet.runtime.clock import utc_us
from watersmeet.runtime.driver import AskedPlan, MakeSpec
from watersmeet.runtime.former_query import fitted, former_of
from watersmeet.runtime.outputs import Outputs
from watersmeet.runtime.planning import (
    Planner,
    asked_plan,
    choose_spec,
    machine_model,
    planning_of,
    recorded_spec,
    refuse_budget,
    silent_note,
)
from watersmeet.runtime.upgrading import open_table
from watersmeet.settings.plan import PlanSettings
from watersmeet.settings.run import RunSettings
from watersmeet.state.files import Folder
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.identity import identify
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.manifest import ANSWERS, Manifest
from watersmeet.state.shapes import plan_of
from watersmeet.state.table import FileTable
from watersmeet.state.updates import SetTracks, Update

TAKES_TRIED = 20  # of a checkpoint that other runs are at work on, or are just taking too


def settings_of(job: Job) -> RunSettings:
    """The settings in a job file."""
    plan = PlanSettings(job.adapt.plan, job.stats, job.run.limits, job.adapt.ring_way)
    return RunSettings(plan, job.memory, job.run.slots, job.run.groups, job.run.retention)


@dataclass(frozen=True)
class OpenRun:
    """A run that has its checkpoint; to be closed."""

    plan: PhysicalPlan  # that it begins with
    query: Query
    chosen: ChosenPlan
    checkpoint: Checkpoint
    controller: Controller
    outputs: Outputs = Outputs()  # noqa: RUF009 - frozen; named after the checkpoint and the epoch of this run
    spill: Folder | None = None  # a temporary folder for what a run without a checkpoint spills
    make_spec: MakeSpec | None = None
    asked: AskedPlan | None = None  # what the run is to change to before anything else
    groups: int | None = None  # that it is to have then

    def close(self) -> None:
        self.checkpoint.close()
        if self.spill is not None:
            shutil.rmtree(self.spill.path(), ignore_errors=True)


def open_run(
    query: Query,
    settings: RunSettings,
    folders: CheckpointFolders | None = None,
    outputs: Outputs | None = None,
    refuse: Callable[[Manifest], None] = lambda manifest: None,
    note: Callable[[str], None] = silent_note,
) -> OpenRun:
    """Begin a run, or go on with the one that `folders` hold. `refuse` raises if the runtime cannot go on with it.

    Results go to `outputs`, where there must be none of another checkpoint. An existing one must be of this query, or
    of one whose state can serve it. Another number of slots changes placement; another plan, query or number of groups
    is what the run changes to before anything else.
    """
    outputs = outputs or Outputs()
    _ = outputs.waiting_folders  # raises where an address is not to be reached, before anything is made
    if folders is None:
        _refuse_budget(query, settings, None)
        spec, chosen = choose_spec(query, settings.plan, settings.memory.watched, note)
        placement = first_placement(query, settings, spec, chosen)
        refuse_steps(query, settings, first_manifest(query, spec, placement))
        outputs.of_checkpoint(new_name()).refuse_results_of_others()
        spill = Folder(tempfile.mkdtemp(prefix="watersmeet-"), durable=False) if settings.memory.watched else None
        checkpoint = in_memory(query, spec, placement, spill)
        return _opened(query, settings, chosen, checkpoint, outputs, spill)
    lock = CheckpointLock(folders.home)
    lock.acquire()
    try:
        for attempt in range(TAKES_TRIED):
            try:
                table, chosen = _take(query, settings, folders, outputs, lock.held, refuse, note)
                break
            except StateConflictError:  # it changed while it was read, or another run was faster to make it
                if attempt == TAKES_TRIED - 1:
                    raise
        held = hold(folders, table, outputs.of_checkpoint(table.manifest.id), lock)
        return _opened(query, settings, chosen, held, outputs)
    except BaseException:
        lock.release()
        raise


def _take(
    query: Query,
    settings: RunSettings,
    folders: CheckpointFolders,
    outputs: Outputs,
    locked: bool,
    refuse: Callable[[Manifest], None],
    note: Callable[[str], None],
) -> tuple[FileTable, ChosenPlan]:
    """Make the checkpoint, or take the one that is there once it is known to fit. Nothing was deleted before."""
    table = open_table(folders, query)
    _refuse_budget(query, settings, None if table is None else table.manifest)
    if table is None:
        spec, chosen = choose_spec(query, settings.plan, settings.memory.watched, note)
        placement = first_placement(query, settings, spec, chosen)
        outputs = outputs.of_checkpoint(new_name())
        holder = this_run(outputs.waiting_folders)
        first = first_manifest(
            query, spec, placement, chosen.reason, holder, outputs.owner, settings.retention, settings.plan.plan
        )
        refuse_steps(query, settings, first)
        outputs.refuse_results_of_others()
        return FileTable.create(folders.state, first, utc_us), chosen
    refuse(table.manifest)
    former_query, changes = former_of(table.manifest, query)
    query = fitted(query, table.manifest)
    if changes:
        tree = spec_of_changed(former_query, query, settings, table.manifest).tree
        chosen = ChosenPlan(tree, {}, "the query was changed", (), settings.plan.statistics or Statistics())
        for sentence in changes:
            note(f"the query was changed: {sentence}")
    else:
        _, chosen = recorded_spec(query, settings.plan, table.manifest, note)
        refuse_steps(query, settings, table.manifest, note)
    former = table.manifest.holder
    outputs = outputs.of_checkpoint(table.manifest.id)
    outputs.refuse_results_of_others()
    outputs.refuse_results_of_later(table.manifest.next_delivery, lambda: _newest(folders).next_delivery)
    # Where something was left elsewhere stays known until it is deleted there, or it could be delivered from there too.
    left = outputs.left_elsewhere(table.manifest, folders.home)
    table = table.claim(
        this_run((*outputs.waiting_folders, *left)),
        lambda manifest: [
            *placed_anew(manifest, placement_with_ring(query, settings, manifest)),
            *retention_changed(manifest, settings.retention),
            *([] if changes else _asked_now(query, settings.plan, manifest)),
        ],
        lambda table: prepare_to_take(folders, table, outputs),
    )
    if not locked:  # no lock says whether that run is still alive
        note(f"took over the checkpoint from {former}; if that run is still alive, it will stop")
    return table, chosen


def _refuse_budget(query: Query, settings: RunSettings, manifest: Manifest | None) -> None:
    """Refuse a budget that cannot be kept by the ring that the run will have, which a checkpoint may say."""
    ring = settings.plan.ring
    refuse_budget(query, settings.memory, ring if manifest is None else going_on(ring, manifest.answering.spec))


def _asked_now(query: Query, settings: PlanSettings, manifest: Manifest) -> list[Update]:
    """Note down the setting that the plan goes on with. One that asks for another plan is noted when it has come."""
    track = manifest.answering
    if settings.plan == track.asked or asked_plan(query, settings, manifest) is not None:
        return []
    shapes = (replace(shape, asked=settings.plan) for shape in manifest.shapes)
    return [SetTracks((*shapes, *(other for other in manifest.tracks if other.role != ANSWERS)))]


def _newest(folders: CheckpointFolders) -> Manifest:
    table = FileTable.open(folders.state)
    assert table is not None, "it was there before"
    return table.manifest


def refuse_steps(
    query: Query, settings: RunSettings, manifest: Manifest, note: Callable[[str], None] | None = None
) -> None:
    """Refuse forced steps that cannot be taken, before anything is made that a refused run would leave behind.

    `note` is told what does not fit a run that has changed and goes on with the settings that it has had.
    """
    asked, before = asked_plan(query, settings.plan, manifest), manifest.placement
    if asked is not None:  # it has that plan by the next batch
        spec, _ = _spec_as_known(query, settings, manifest, asked)
        track = replace(manifest.answering, spec=spec, since_batch=manifest.last_batch + 1)
        manifest = replace(manifest, tracks=(track,))
    placed = _placed(query, manifest, settings)
    same = asked is None and (settings.slots, settings.groups) == (before.asked_slots, before.groups)
    check_steps(settings.memory, plan_of(query, placed), placed, note if same else None)


def _placed(query: Query, manifest: Manifest, settings: RunSettings) -> Manifest:
    """With the slots and the groups that the run will have by its first batch."""
    placement = placement_of_restart(query, manifest, settings)
    if placement.groups == manifest.placement.groups:
        return replace(manifest, placement=placement)
    united = replace(manifest.answering, within=None)  # other groups have one shape
    return replace(manifest, placement=placement, tracks=(united,))


def placement_of_restart(query: Query, manifest: Manifest, settings: RunSettings) -> Placement:
    """Where the groups of a checkpoint will be by the first batch of a run with these settings."""
    return regrouped(placement_with_ring(query, settings, manifest), settings)


def regrouped(placement: Placement, settings: RunSettings) -> Placement:
    """With the groups that a run is started with."""
    return placement if placement.groups == settings.groups else placement.regroup(settings.groups)


def placement_with_ring(query: Query, settings: RunSettings, manifest: Manifest) -> Placement:
    """Where the groups of a checkpoint are with the slots, and the ring, that a run is started with."""
    placement, asked = manifest.placement.asking(settings.slots), _asked_ring(query, settings)
    anew = placement.slots != manifest.placement.slots
    if asked == placement.asked_ring and (asked or not anew):
        return placement
    chosen = asked
    if not asked:
        spec = manifest.answering.spec
        ring = going_on(settings.plan.ring, spec)
        plan = lay_out_spec(query, spec_of(query, tree_for(query, spec), ring=ring))
        known = replace(settings.plan.statistics or Statistics(), measured=manifest.measured)
        chosen = _auto_ring(plan, settings, known, placement.slots)
    return replace(placement, ring=chosen, asked_ring=asked) if anew else placement.asking_ring(asked, chosen)


def _asked_ring(query: Query, settings: RunSettings) -> int:
    """How many slots a user wants a ring to lie over; 0 for auto, and where there is none."""
    return settings.memory.ring.slots if len(query.parts) > 1 else 0


def _auto_ring(plan: PhysicalPlan, settings: RunSettings, statistics: Statistics, slots: int) -> int:
    """How many slots a ring is to lie over by what is known; 0, all of them, where nothing is.

    As many as rows have copies, at least.
    """
    if not plan.has_ring or not (statistics.given or statistics.measured.seconds):
        return 0
    length = ring_length(plan, statistics, slots, settings.memory.ring.seconds, machine_model(plan.query)) or 0
    copies = max((round(state.copies) for state in plan.states.values() if state.partitioning == BY_TIME), default=1)
    return max(length, min(copies, slots)) if length else 0


def plan_ahead(
    query: Query, settings: RunSettings, folders: CheckpointFolders | None, note: Callable[[str], None] = silent_note
) -> tuple[PlanSpec, ChosenPlan]:
    """The plan that a run would have: that of its checkpoint, if there is one of this query. Changes nothing."""
    manifest = None if folders is None else newest_manifest(folders)
    _refuse_budget(query, settings, manifest)
    if manifest is not None and manifest.query.digest == identify(query).digest:
        query = fitted(query, manifest)
        asked = asked_plan(query, settings.plan, manifest)
        if asked is None:
            return recorded_spec(query, settings.plan, manifest, note)
        return _spec_as_known(query, settings, manifest, asked, note)
    return choose_spec(query, settings.plan, settings.memory.watched, note)


def _spec_as_known(
    query: Query, settings: RunSettings, manifest: Manifest, plan: str, note: Callable[[str], None] = silent_note
) -> tuple[PlanSpec, ChosenPlan]:
    """The spec of a plan that a run goes over to, by all that is known: as the run itself will make it."""
    known = replace(settings.plan.statistics or Statistics(), measured=manifest.measured)
    ring = going_on(settings.plan.ring, manifest.answering.spec)
    changed = replace(settings.plan, plan=plan, statistics=known, ring=ring)
    spec, chosen = choose_spec(query, changed, settings.memory.watched, note)
    spec = _carrying(spec, manifest)
    return spec, replace(chosen, tree=spec.tree)


def _carrying(spec: PlanSpec, manifest: Manifest) -> PlanSpec:
    """As a run goes over to it: with the weights of rows that were combined."""
    return replace(spec, tree=still_weighed(spec.tree, manifest.answering.spec.tree))


def first_placement(query: Query, settings: RunSettings, spec: PlanSpec, chosen: ChosenPlan) -> Placement:
    """Where the operators of a run that begins are: spread, or by what each is thought to take."""
    asked, balance, plan = _asked_ring(query, settings), settings.memory.balance, lay_out_spec(query, spec)
    ring = asked or _auto_ring(plan, settings, chosen.statistics, settings.slots)
    placement = Placement(settings.slots, settings.groups, ring=ring, asked_ring=asked)
    if balance.allocate == SPREAD:
        return placement
    loads = load_factors(plan, chosen.statistics)
    if plan.has_ring:  # it has a length of its own, wherever other joins are
        placement = placement.with_ring(ring)
    return allocate(balance.allocate, loads, placement, balance.weights)


def placement_ahead(
    query: Query, settings: RunSettings, folders: CheckpointFolders | None, spec: PlanSpec, chosen: ChosenPlan
) -> Placement:
    """Where operators would be when a run begins: as its checkpoint has it, if there is one. Changes nothing."""
    manifest = None if folders is None else newest_manifest(folders)
    if manifest is None or manifest.query.digest != identify(query).digest:
        return first_placement(query, settings, spec, chosen)
    return placement_of_restart(query, manifest, settings)


def with_shapes(query: Query, spec: PlanSpec, folders: CheckpointFolders | None) -> PhysicalPlan:
    """The plan of a spec; where it is what a checkpoint goes on with, with the shapes that groups have there."""
    manifest = None if folders is None else newest_manifest(folders)
    if manifest is None or manifest.answering.spec != spec or manifest.query.digest != identify(query).digest:
        return lay_out_spec(query, spec)
    return plan_of(query, manifest)


def _opened(
    query: Query,
    settings: RunSettings,
    chosen: ChosenPlan,
    checkpoint: Checkpoint,
    outputs: Outputs,
    spill: Folder | None = None,
) -> OpenRun:
    manifest = checkpoint.manifest
    query = fitted(query, manifest)
    former, _ = former_of(manifest, query)
    plan = plan_of(former, manifest)
    controller = Controller(plan, settings.memory, planning=planning_of(query, settings.plan, settings.memory))
    outputs = outputs.of_checkpoint(checkpoint.manifest.id, checkpoint.manifest.epoch)
    make_spec = Planner(query, settings.plan).spec
    asked = _asked(former, query, settings.plan, manifest)
    return OpenRun(plan, query, chosen, checkpoint, controller, outputs, spill, make_spec, asked, settings.groups)


def _asked(former: Query, query: Query, settings: PlanSettings, manifest: Manifest) -> AskedPlan | None:
    """What a run is to change to before anything else."""
    if former is not query:
        return AskedPlan(_plan_of_changed(query, settings, manifest), settings.plan, query, "the query was changed")
    plan = asked_plan(query, settings, manifest)
    if plan is None:
        return None
    before, after = way_of(manifest.answering.spec), going_on(settings.ring, manifest.answering.spec)
    rings = "" if before == after else f": rings by {after}"
    return AskedPlan(plan, settings.plan, query, f"the settings say so{rings}")


def _plan_of_changed(query: Query, settings: PlanSettings, manifest: Manifest) -> str:
    """The plan of a query that was changed: the one that there is, unless the settings name one."""
    return str(tree_for(query, manifest.answering.spec)) if settings.plan in dict(STRATEGIES) else settings.plan


def spec_of_changed(former: Query, query: Query, settings: RunSettings, manifest: Manifest) -> PlanSpec:
    """The plan of a query that was changed, once it is known that the state holds all that it needs."""
    _refuse_budget(query, settings, manifest)
    spec, _ = _spec_as_known(query, settings, manifest, _plan_of_changed(query, settings.plan, manifest))
    new = lay_out_spec(query, spec)
    missing = missing_columns(plan_of(former, manifest), new)
    if missing and manifest.segments:
        raise CheckpointError(
            "the checkpoint does not hold all that the query needs now",
            detail=f"Of the rows that it keeps it has no {', '.join(missing)}.",
            hint="Use another checkpoint folder, or leave these out.",
        )
    track = replace(manifest.answering, spec=spec, since_batch=manifest.last_batch + 1)
    check_steps(settings.memory, new, _placed(query, replace(manifest, tracks=(track,)), settings))
    return spec
