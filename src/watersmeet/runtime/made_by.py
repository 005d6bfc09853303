"""Which runtime a checkpoint was made by: the other one cannot resume it."""

from __future__ import annotations

from watersmeet.errors import CheckpointError
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.manifest import Manifest


def refuse_made_on_spark(folders: CheckpointFolders) -> None:
    """For the local runtime. What was read is in Spark's part of the checkpoint, so it would be read again."""
    if folders.spark.names():
        raise CheckpointError(
            "the checkpoint was made by the spark runtime",
            detail=f"{folders.spark.path()} says how far its sources were read, which the local runtime cannot go by.",
            hint='Use runtime = "spark" in [run], or another checkpoint folder.',
        )


def refuse_made_locally(manifest: Manifest) -> None:
    """For Spark, which would read all of the files again."""
    if any(progress.reads_files for progress in manifest.streams.values()):
        raise CheckpointError(
            "the checkpoint was made by the local runtime",
            detail="Its state says which files were read, which Spark cannot go by.",
            hint='Use runtime = "local" in [run], or another checkpoint folder.',
        )


def refuse_other_runtime(runtime: str, folders: CheckpointFolders, manifest: Manifest | None) -> None:
    """Refuse a checkpoint that the other runtime made."""
    if runtime == "local":
        refuse_made_on_spark(folders)
    elif manifest is not None:
        refuse_made_locally(manifest)
