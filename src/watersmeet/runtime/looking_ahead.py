"""What a run would begin with, or do with a checkpoint. Takes no checkpoint, and imports nothing that runs a job."""

from __future__ import annotations

from watersmeet.errors import CheckpointError, WatersmeetError
from watersmeet.plan.query import Query
from watersmeet.runtime.made_by import refuse_other_runtime
from watersmeet.runtime.planning import Note, StartCosts, measured_costs, silent_note
from watersmeet.runtime.upgrading import refuse_unreleased
from watersmeet.settings.run import RunSettings
from watersmeet.start.resolve import resolve
from watersmeet.start.resumption import Resumption, refused_resumption, resumption_of
from watersmeet.start.start_plan import StartPlan
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import FileTable, OlderFormatError


def newest_manifest(folders: CheckpointFolders) -> Manifest | None:
    """What a checkpoint holds, to look at; None if there is none."""
    table = FileTable.open(folders.state)
    return None if table is None else table.manifest


def look_ahead(
    query: Query,
    settings: RunSettings,
    folders: CheckpointFolders | None,
    runtime: str,
    note: Note = silent_note,
    costs: StartCosts = measured_costs,
) -> StartPlan:
    """What a run would begin with now. Takes no lock and changes nothing; true until somebody commits."""
    manifest = None
    if folders is not None:
        manifest = _look_at(folders)
        refuse_other_runtime(runtime, folders, manifest)
    return resolve(query, settings, manifest, costs(query, settings, manifest, note))


def look_against(
    query: Query, settings: RunSettings, folders: CheckpointFolders, runtime: str, note: Note = silent_note
) -> Resumption:
    """What a run would do with the checkpoint in `folders`, which must be there, or what it would be refused for."""
    manifest = _look_at(folders)
    if manifest is None:
        raise CheckpointError(
            f'there is no checkpoint in "{folders.home.path()}"',
            hint="Name the folder that [run] checkpoint or checkpointLocation names.",
        )
    try:
        refuse_other_runtime(runtime, folders, manifest)
        return resumption_of(resolve(query, settings, manifest, measured_costs(query, settings, manifest, note)))
    except WatersmeetError as error:
        return refused_resumption(manifest, settings, error)


def _look_at(folders: CheckpointFolders) -> Manifest | None:
    """The newest version of a checkpoint; None if there is none."""
    try:
        return newest_manifest(folders)
    except OlderFormatError as error:
        refuse_unreleased(error)
        raise
