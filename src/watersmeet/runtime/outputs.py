"""Where the results of a run go: who writes them, where they wait for the commit, and how a batch is delivered.

Result files wait in a folder beside their place, under a name that readers pass over, and are moved by delivery. A
delivery may be repeated: what was moved already stays moved. Whoever notes down that it is done has the folders that it
names on disk first.

The folder is named after the checkpoint, and so is every file (`state/output_names.py`). So a checkpoint that was
moved or restored finds what waits, and one that comes to the results of another is refused. A run whose results go
elsewhere than those of the run before takes what that one has left along: copies before it claims the checkpoint, and
deletes after it, before it delivers anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from watersmeet import faults
from watersmeet.errors import JobError
from watersmeet.plan.output_mode import APPEND
from watersmeet.runtime.results import CountedResults, ParquetResults
from watersmeet.runtime.stages.task import ResultWriter
from watersmeet.settings.sink import REFUSE
from watersmeet.state.backup.copying import copy_file
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Delivery, Manifest
from watersmeet.state.output_names import delivery_of, is_marked, stamp_of
from watersmeet.state.syncing import sync_files

# Readers of a folder of parquet files pass over names that begin with an underscore.
WAITING = "_watersmeet"


@dataclass(frozen=True)
class Outputs:
    """The result files of a run, and the folders that they are delivered to (None: left to somebody else, or none)."""

    target: str | None = None
    late_target: str | None = None
    kept: Folder | None = None  # where results stay, for somebody else to deliver from
    durable: bool = True  # what is delivered is to survive a power loss
    existing: str = REFUSE
    max_rows: int | None = None  # in a file
    owner: str = ""  # the checkpoint, by its name
    epoch: int = 0  # of the run, once it has taken its checkpoint

    @classmethod
    def of(
        cls,
        format: str,
        target: str | None,
        late: str | None,
        durable: bool = True,
        existing: str = REFUSE,
        max_rows: int | None = None,
    ) -> Outputs:
        """Results to `target` as `format`, late rows to `late`."""
        return cls(None if format == "noop" else target, late, None, durable, existing, max_rows)

    @classmethod
    def waiting_only(cls, kept: Folder, late: str | None, existing: str = REFUSE) -> Outputs:
        """Results stay in `kept`, for somebody else to deliver from."""
        return cls(None, late, kept, kept.durable, existing)

    def of_checkpoint(self, owner: str, epoch: int = 0) -> Outputs:
        """The same, for the run that is this epoch of the checkpoint `owner`."""
        return replace(self, owner=owner, epoch=epoch)

    @cached_property
    def writer(self) -> ResultWriter:
        if self.waiting is None:
            return CountedResults()
        return ParquetResults(self.waiting, self.max_rows)

    @cached_property
    def waiting(self) -> Folder | None:
        return self.kept or self._waiting_in(self.target)

    @cached_property
    def late_waiting(self) -> Folder | None:
        return self._waiting_in(self.late_target)

    def _waiting_in(self, target: str | None) -> Folder | None:
        return None if target is None else self._folder(target).sub(f"{WAITING}-{self.owner}")

    def _folder(self, target: str) -> Folder:
        return Folder(target, durable=self.durable)

    @property
    def waiting_folders(self) -> tuple[Folder, ...]:
        return tuple(folder for folder in (self.waiting, self.late_waiting) if folder is not None)

    @property
    def _places(self) -> list[tuple[Folder, Folder]]:
        """The folders that are delivered to, each with the one where its files wait."""
        pairs = ((self.target, self.waiting), (self.late_target, self.late_waiting))
        return [(self._folder(target), waiting) for target, waiting in pairs if target is not None and waiting]

    def deliver(self, delivery: Delivery) -> list[Folder]:
        """Move the files of a committed batch to where readers find them; the folders that they have come to."""
        faults.reach("before-delivery")
        folders = []
        if self.waiting is not None and self.target is not None:
            folders += _publish(self.waiting, delivery.results, self._folder(self.target))
        if self.late_waiting is not None and self.late_target is not None:
            folders += _publish(self.late_waiting, delivery.late_files, self._folder(self.late_target))
        faults.reach("after-delivery")
        return folders

    # --- what other runs have left ------------------------------------------------------------------------------------

    def refuse_results_of_others(self) -> None:
        """Raise `JobError` if there are files of another checkpoint where results or late rows go."""
        if self.existing == APPEND:
            return
        for folder, waiting in self._places:
            others = [
                (name, stamp.owner)
                for name in folder.names()
                if not is_marked(name, self.owner)  # most are, where there are many
                and (stamp := stamp_of(name)) is not None
                and stamp.owner != self.owner
            ]
            if others:
                raise _results_of_others(folder, self._what(waiting), others)

    def refuse_results_of_later(self, known: int, look_again: Callable[[], int]) -> None:
        """Raise `JobError` if there are files of this checkpoint that it knows nothing of: it is older than they are.

        It was restored, or has lost its last versions, and would deliver their rows a second time. `known` is the
        number of its next delivery; `look_again` is asked for the one that it has come to since the files were listed,
        as another run may be at work.
        """
        if self.existing == APPEND:
            return
        for folder, waiting in self._places:
            numbers = {name: delivery_of(name, self.owner) for name in folder.names()}
            if max(numbers.values(), default=-1) >= known:
                known = look_again()
                later = [name for name, number in numbers.items() if number >= known]
                if later:
                    raise _results_of_later(folder, self._what(waiting), later)

    def _what(self, waiting: Folder) -> str:
        """What waits there, for people."""
        return "results" if waiting == self.waiting else "late rows"

    def find_waiting(self, deliveries: Iterable[Delivery]) -> dict[Folder, list[str]]:
        """The files of these deliveries that still wait, by the folder where they do."""
        wanted = {name for entry in deliveries for name in entry.files}
        found = {folder: sorted(wanted & set(folder.names())) for folder in self.waiting_folders if wanted}
        return {folder: names for folder, names in found.items() if names}

    def left_elsewhere(self, manifest: Manifest, home: Folder) -> dict[Folder, list[str]]:
        """What is to be delivered and waits where the run before has left it, whose results went elsewhere."""
        own = {folder.path() for folder in self.waiting_folders}
        wanted = {name for entry in manifest.undelivered for name in entry.files}
        others = [home.elsewhere(place) for place in manifest.holder.waiting if wanted and place not in own]
        found = {folder: sorted(wanted & set(folder.names())) for folder in others}
        return {folder: names for folder, names in found.items() if names}

    def bring(self, manifest: Manifest, left: Mapping[Folder, Sequence[str]]) -> None:
        """Copy what was left elsewhere to where this run delivers from. Nothing is deleted: it is not taken yet."""
        for folder, there in left.items():
            for entry in manifest.undelivered:
                for names, waiting in ((entry.results, self.waiting), (entry.late_files, self.late_waiting)):
                    for name in (name for name in names if name in there):
                        if waiting is None:
                            raise _nowhere_to_go(folder, name)
                        if not waiting.exists(name):
                            copy_file(folder, name, waiting, name, entry.sums.get(name))

    def take_restored(self, manifest: Manifest, results: Folder) -> None:
        """Let files wait where they are delivered from that a backup has brought back with the checkpoint itself."""
        there = set(results.names())
        for entry in manifest.undelivered:
            for names, waiting in ((entry.results, self.waiting), (entry.late_files, self.late_waiting)):
                restored = [name for name in names if name in there]
                if waiting is not None and waiting != results and restored:
                    for name in restored:
                        copy_file(results, name, waiting, name, entry.sums.get(name))
                    sync_files({waiting: restored})
                    results.delete_all(restored)


def _publish(waiting: Folder, names: Sequence[str], target: Folder) -> list[Folder]:
    """Move files that still wait. One that does not has been moved before: nothing else takes it from there, and where
    it is by now is its readers' affair."""
    waiting.move_out(names, target, midway="in-delivery")
    # One that was moved before may have been moved by a process that was killed, and not be on disk either.
    return [target] if names else []


def _nowhere_to_go(folder: Folder, name: str) -> JobError:
    return JobError(
        "what the run before has left to be delivered has nowhere to go",
        detail=f"{folder.path(name)} was committed and not delivered, and this run has no folder for such files.",
        hint="Run it once more with the [sink] that it had, or name a folder; then change it.",
    )


def _files(some: Sequence[object]) -> str:
    return "1 file" if len(some) == 1 else f"{len(some):,} files"


def _results_of_later(folder: Folder, what: str, later: Sequence[str]) -> JobError:
    return JobError(
        f'the folder for {what} holds {what} that the checkpoint knows nothing of: "{folder.path()}"',
        detail=f"{_files(later)} there, such as {later[0]}, came from it when it was further on than it is now. It was "
        "restored from a backup, or its last versions are missing; their rows would be there twice.",
        hint="Move them elsewhere, as watersmeet state restore --set-aside does. To have them twice on purpose: "
        'existing = "append" in [sink], or the option of that name.',
    )


def _results_of_others(folder: Folder, what: str, others: Sequence[tuple[str, str]]) -> JobError:
    name, owner = others[0]
    return JobError(
        f'the folder for {what} holds {what} of another checkpoint: "{folder.path()}"',
        detail=f"{_files(others)} there, such as {name}, came from checkpoint {owner}. This run would add its own to "
        "them, and what both have computed would be there twice.",
        hint="Name another folder, go on with that checkpoint, or remove its files. To add to them on purpose: "
        'existing = "append" in [sink], or the option of that name.',
    )
