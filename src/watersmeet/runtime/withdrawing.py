"""What a rollback leaves to be done outside of the state: results leave the output, and Spark's notes go back.

`runtime/rollback.py` does it at once, and the next run again before it does anything else (`runtime/checkpoint.py`).
"""

from __future__ import annotations

from watersmeet import faults
from watersmeet.runtime.outputs import WAITING
from watersmeet.state.files import Folder
from watersmeet.state.folders import ROLLED_BACK, CheckpointFolders, aside_for
from watersmeet.state.manifest import ASIDE, KEEP, REMOVE, Manifest, Withdrawal
from watersmeet.state.spark_notes import go_back, list_notes

HOW = {
    ASIDE: f"moved to a folder {ROLLED_BACK}-VERSION beside them, which readers pass over",
    REMOVE: "deleted",
    KEEP: "left where they are, so that their results will be there twice",
}


def finish_rollbacks(folders: CheckpointFolders, manifest: Manifest) -> dict[Folder, tuple[str, ...]]:
    """Do what rollbacks have left to be done. To be repeated until it is noted down, and to be on disk before that is:
    the folders in question, also where all was found done, as nobody knows whether who did it had it on disk.
    """
    changed: dict[Folder, tuple[str, ...]] = {}
    for withdrawal in manifest.withdrawals:
        faults.reach("before-withdrawal")
        for place in dict.fromkeys((*withdrawal.places, *manifest.holder.waiting)):
            changed |= dict.fromkeys(_withdraw(withdrawal, folders.home.elsewhere(place)), ())
        faults.reach("after-withdrawal")
        if list_notes(folders.spark):
            faults.reach("before-spark-goes-back")
            changed |= dict.fromkeys(go_back(folders.spark, withdrawal.batch, "in-spark-goes-back"), ())
            faults.reach("after-spark-goes-back")
    return changed


def _withdraw(withdrawal: Withdrawal, waiting: Folder) -> list[Folder]:
    """Take files out of an output; the folders that it is about."""
    # From here on nobody can deliver them any more, not even a run that was stopped in the middle of it.
    waiting.delete_all([name for name in withdrawal.files if name in set(waiting.names())])
    target = target_of(waiting)
    if target is None or withdrawal.how == KEEP:
        return []
    there = sorted(set(withdrawal.files).intersection(target.names()))
    if withdrawal.how == REMOVE:
        for name in there:
            target.delete(name)
            faults.reach("in-withdrawal")
        return [target] if target.is_there else []
    aside = aside_for(target, ROLLED_BACK, str(withdrawal.version), withdrawal.files)
    if there:
        aside.make()
        target.move_out(there, aside, midway="in-withdrawal")
    return [folder for folder in (aside, target) if folder.is_there]


def target_of(waiting: Folder) -> Folder | None:
    """The folder that results are delivered to from there; None where a function gets them."""
    return waiting.parent if waiting.path().rpartition("/")[2].startswith(f"{WAITING}-") else None
