"""The folders of a checkpoint: what lies where under its address."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.state.files import Folder

ROLLED_BACK = "_rolled-back"  # in an output; readers of parquet files pass over what begins with an underscore


@dataclass(frozen=True)
class CheckpointFolders:
    """The folders of a checkpoint."""

    address: str
    cache: str | None = None
    durable: bool = True

    @property
    def home(self) -> Folder:
        return Folder(self.address, durable=self.durable)

    @property
    def state(self) -> Folder:
        return self.home.sub("state")

    @property
    def segments(self) -> Folder:
        return self.home.sub("state/segments", self.cache)

    @property
    def results(self) -> Folder:
        return self.home.sub("state/results")

    @property
    def file_lists(self) -> Folder:
        return self.home.sub("state/files")

    @property
    def spark(self) -> Folder:
        """Spark's own, which says how far sources were read."""
        return self.home.sub("spark")
