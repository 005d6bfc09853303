"""How a run begins, on both runtimes: takes hold of its checkpoint, or makes one, with the start that was resolved."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace

from watersmeet.adapt.controller import Controller
from watersmeet.errors import StateConflictError
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.runtime.checkpoint import (
    Checkpoint,
    hold,
    hold_in_memory,
    placed_anew,
    prepare_to_take,
    retention_changed,
    this_run,
)
from watersmeet.runtime.clock import Clock, WallClock, utc_us
from watersmeet.runtime.events import Report, StartEvent
from watersmeet.runtime.make_spec import MakeSpec
from watersmeet.runtime.outputs import Outputs
from watersmeet.runtime.planning import Note, Planner, StartCosts, measured_costs, planning_of, silent_note
from watersmeet.runtime.upgrading import open_table
from watersmeet.settings.run import RunSettings
from watersmeet.start.promises import Promises
from watersmeet.start.resolve import resolve
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.files import Folder
from watersmeet.state.first_manifest import new_name
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.lock import CheckpointLock
from watersmeet.state.manifest import ANSWERS, Manifest
from watersmeet.state.table import FileTable
from watersmeet.state.updates import SetTracks, Update

TAKES_TRIED = 20  # of a checkpoint that other runs are at work on, or are just taking too


@dataclass(frozen=True)
class OpenRun:
    """A run that has its checkpoint; to be closed."""

    start: StartPlan
    checkpoint: Checkpoint
    controller: Controller
    outputs: Outputs = Outputs()  # noqa: RUF009 - frozen; named after the checkpoint and the epoch of this run
    spill: Folder | None = None  # a temporary folder for what a run without a checkpoint spills
    make_spec: MakeSpec | None = None

    @property
    def plan(self) -> PhysicalPlan:
        """The plan that answers until the run has made the change that it begins with, if there is one."""
        return self.start.former

    def report_start(self, promises: Promises, report: Report, clock: Clock | None = None) -> None:
        """Report what the run begins with. It is the first event of a run."""
        report(StartEvent.of(self.start, promises).to_json((clock or WallClock()).utc_us()))

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
    note: Note = silent_note,
    costs: StartCosts = measured_costs,
    start: StartPlan | None = None,
) -> OpenRun:
    """Begin a run, or resume the one that `folders` hold. `refuse` raises if the runtime cannot resume it.

    Results go to `outputs`, where there must be none of another checkpoint. An existing one must be of this query, or
    of one whose state can serve it. `start` is what `look_ahead` found: it is resolved again only if somebody has
    committed since.
    """
    outputs = outputs or Outputs()
    _ = outputs.waiting_folders  # raises where an address is not to be reached, before anything is made
    if folders is None:
        start = start or resolve(query, settings, None, costs(query, settings, None, note))
        outputs.of_checkpoint(new_name()).refuse_results_of_others()
        spill = Folder(tempfile.mkdtemp(prefix="watersmeet-"), durable=False) if settings.memory.watched else None
        checkpoint = hold_in_memory(replace(start.manifest, id=new_name()), spill)
        return _opened(start, checkpoint, outputs, note, spill)

    def resolved(manifest: Manifest | None) -> StartPlan:
        """The start from this version: the one that there is, unless somebody has committed since."""
        nonlocal start
        if manifest is not None:
            refuse(manifest)
        if start is None or not start.is_from(manifest):
            start = resolve(query, settings, manifest, costs(query, settings, manifest, note))
        return start

    lock = CheckpointLock(folders.home)
    lock.acquire()
    try:
        for attempt in range(TAKES_TRIED):
            try:
                table = _take(query, folders, outputs, lock.held, resolved, note)
                break
            except StateConflictError:  # it changed while it was read, or another run was faster to make it
                if attempt == TAKES_TRIED - 1:
                    raise
        assert start is not None, "it was resolved before the checkpoint was taken"
        held = hold(folders, table, outputs.of_checkpoint(table.manifest.id), lock)
        return _opened(start, held, outputs, note)
    except BaseException:
        lock.release()
        raise


def _take(
    query: Query,
    folders: CheckpointFolders,
    outputs: Outputs,
    locked: bool,
    resolved: Callable[[Manifest | None], StartPlan],
    note: Note,
) -> FileTable:
    """Make the checkpoint, or take the one that is there once it is known to fit. Nothing was deleted before."""
    table = open_table(folders, query)
    if table is None:
        first = resolved(None).manifest
        outputs = outputs.of_checkpoint(new_name())
        outputs.refuse_results_of_others()
        holder = this_run(outputs.waiting_folders)
        return FileTable.create(folders.state, replace(first, holder=holder, id=outputs.owner), utc_us)
    for sentence in resolved(table.manifest).sentences():
        note(sentence)
    former = table.manifest.holder
    outputs = outputs.of_checkpoint(table.manifest.id)
    outputs.refuse_results_of_others()
    outputs.refuse_results_of_later(table.manifest.next_delivery, lambda: _newest(folders).next_delivery)
    # Where something was left elsewhere stays known until it is deleted there, or it could be delivered from there too.
    left = outputs.left_elsewhere(table.manifest, folders.home)
    start = resolved(table.manifest)

    def prepare(table: FileTable) -> None:
        nonlocal start
        start = resolved(table.manifest)  # another one, if a run that is alive has committed meanwhile
        prepare_to_take(folders, table, outputs)

    table = table.claim(
        this_run((*outputs.waiting_folders, *left)),
        lambda manifest: _taken_with(start),
        prepare,
    )
    if not locked:  # no lock says whether that run is still alive
        note(f"took over the checkpoint from {former}; if that run is still alive, it will stop")
    return table


def _taken_with(start: StartPlan) -> list[Update]:
    """What the claim of a checkpoint changes in it: slots, how long versions stay, and the setting of the plan.

    A setting that asks for another plan is noted when the plan has come.
    """
    manifest, setting = start.manifest, start.settings.plan.plan
    updates = [
        *placed_anew(manifest, start.claimed),
        *retention_changed(manifest, start.settings.retention),
    ]
    if start.change is None and setting != manifest.answering.asked:
        shapes = (replace(shape, asked=setting) for shape in manifest.shapes)
        updates.append(SetTracks((*shapes, *(other for other in manifest.tracks if other.role != ANSWERS))))
    return updates


def _newest(folders: CheckpointFolders) -> Manifest:
    table = FileTable.open(folders.state)
    assert table is not None, "it was there before"
    return table.manifest


def _opened(
    start: StartPlan, checkpoint: Checkpoint, outputs: Outputs, note: Note, spill: Folder | None = None
) -> OpenRun:
    controller = Controller(
        start.former, start.settings.memory, planning=planning_of(start.query, start.settings, note)
    )
    outputs = outputs.of_checkpoint(checkpoint.manifest.id, checkpoint.manifest.epoch)
    make_spec = Planner(start.query, start.settings.plan, note).spec
    return OpenRun(start, checkpoint, controller, outputs, spill, make_spec)
