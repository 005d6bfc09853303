"""What the verbs of `watersmeet state` share: the checkpoint that they are given, and how its versions are called."""

from __future__ import annotations

import argparse
import os

from watersmeet.errors import CheckpointError
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import read_versions


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """The argument that every verb takes first."""
    parser.add_argument("checkpoint", help="the checkpoint folder")


def readable_versions(checkpoint: str) -> list[Manifest]:
    """The manifests of a checkpoint, oldest first; at least one, or an error that says what is missing."""
    root = Folder(checkpoint).sub("state")
    manifests = list(read_versions(root))
    if not manifests:
        raise no_checkpoint(checkpoint)
    return manifests


def no_checkpoint(checkpoint: str) -> CheckpointError:
    """What to say where there is no state."""
    root = Folder(checkpoint).sub("state")
    if root.local and not os.path.isdir(Folder(checkpoint).path()):
        return CheckpointError(
            f'there is no checkpoint "{checkpoint}"',
            detail=f"Looked for the folder {Folder(checkpoint).path()}.",
            hint='Give the folder that "checkpoint" names in [run] of the job file.',
        )
    return CheckpointError(
        f'folder "{checkpoint}" holds no state',
        detail=f"There is no snapshot in {root.path('snapshots')}.",
        hint='Give the folder that "checkpoint" names in [run]; a run writes its state there when it starts.',
    )


def batch_text(manifest: Manifest) -> str:
    return "no batch yet" if manifest.last_batch < 0 else f"batch {manifest.last_batch}"
