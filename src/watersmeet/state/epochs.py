"""Who holds a checkpoint: every run that takes it is an *epoch* of its own, one more than the one before.

A run takes a checkpoint with a commit (`Claim` in `state/updates.py`), before it deletes, delivers or writes anything
else. As versions are added with put-if-absent, a former run that is still alive can commit nothing from then on: the
next version that it would add is the claim itself, which stays for `CLAIMS_KEPT` claims more. A run that slept through
all of these finds that its own last version has gone, for which it looks when it has committed nothing for a while.
Files that runs write carry the epoch in their names, so that a run deletes nothing that belongs to a later one, however
late it wakes up.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from watersmeet.errors import CheckpointError

# Claims whose versions stay. A job that is started every minute has made so many in 16 hours; if all of them were kept,
# what a start costs would grow with the number of starts.
CLAIMS_KEPT = 1_000

_MARKED = re.compile(r"-e(\d+)-[0-9a-f]+(\.\w+)?$")


@dataclass(frozen=True)
class Holder:
    """The run that has taken a checkpoint: the number of its epoch, a name that no other run has, and who it is."""

    epoch: int = 0
    run: str = ""
    host: str = ""
    pid: int = 0
    since: str = ""  # a time in UTC, for people
    # Where results and late rows wait for their delivery, without secrets: for who verifies or copies a checkpoint, and
    # for the next run, whose results may go elsewhere.
    waiting: tuple[str, ...] = ()

    def __str__(self) -> str:
        """For people.

        >>> print(Holder(3, "a7", "here", 71, "2026-11-17 05:00:00 UTC"))
        process 71 on host "here" since 2026-11-17 05:00:00 UTC
        """
        return f'process {self.pid} on host "{self.host}" since {self.since}' if self.run else "a run that is not known"


FIRST_EPOCH = 1
NOBODY = Holder()  # of a run that leaves nothing behind


def name_of_epoch(begin: str, epoch: int, end: str = "") -> str:
    """A name that no other file has, which says of which epoch it is.

    >>> epoch_of(name_of_epoch("part-00000001-0000", 7, ".parquet"))
    7
    """
    return f"{begin}-e{epoch}-{uuid.uuid4().hex[:16]}{end}"


def epoch_of(name: str) -> int:
    """The epoch that a file was written in; 0 for one of a run that leaves nothing behind.

    >>> epoch_of("00000003-e2-0123456789abcdef.arrow"), epoch_of("00000003-e0-0123456789abcdef.arrow")
    (2, 0)
    """
    found = _MARKED.search(name)
    return int(found[1]) if found else 0


class TakenOverError(CheckpointError):
    """A later run has taken the checkpoint; this one can change nothing there any more."""

    def __init__(self, address: str, holder: Holder) -> None:
        super().__init__(
            "another run has taken over the checkpoint",
            detail=f"{address} is held by {holder}. This run can change nothing there any more, and stops.",
            hint="If it was started by mistake, stop it, and start this one again: it goes on where that one stopped.",
        )
        self.holder = holder
