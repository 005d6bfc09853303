"""Which versions can be gone back to, and which files they need. Data and pure functions; `state/table.py` asks them.

A version is *kept* while it is among the last `Retention.versions`, or was the newest at some time within the last
`Retention.for_us`. With every commit the table works out the oldest version that is kept, and writes it down in the new
version (`Manifest.kept_from`), which only ever goes up. Nobody deletes what a kept version refers to: a run deletes
what no version needs from `kept_from` of its own last commit on. So one that was taken over, and wakes up later,
deletes nothing that is needed by a version which can still be gone back to.

What that costs a commit does not grow with the number of versions kept: one time is kept of each, and `FilesKept` knows
each file that is referred to, and those that the newest version does not need by the version that let go of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

VERSIONS_KEPT = 5  # for inspection, for a reader that is a little behind, and for a step back


@dataclass(frozen=True)
class Retention:
    """How many versions are kept, and for how long."""

    versions: int = VERSIONS_KEPT
    for_us: int | None = None


class Committed:
    """The versions that are kept, each with the time of its commit; None where that is not known.

    >>> found = Committed(); [found.follow(v, v * 10, Retention(2, 25)) for v in range(1, 8)]
    [1, 1, 1, 1, 2, 3, 4]
    """

    def __init__(self) -> None:
        self._times: deque[tuple[int, int | None]] = deque()

    def oldest_after(self, version: int, at_us: int | None, retention: Retention) -> int:
        """The oldest version that is kept once `version` has been committed. Changes nothing."""
        for place in range(len(self._times)):  # as far as versions are let go of, and one more
            kept = self._times[place][0]
            until_us = self._times[place + 1][1] if place + 1 < len(self._times) else at_us
            if kept > version - retention.versions or _is_recent(until_us, at_us, retention.for_us):
                return kept
        return version

    def add(self, version: int, at_us: int | None, kept_from: int) -> None:
        """Take note of a commit, and let go of versions before `kept_from`."""
        self._times.append((version, at_us))
        while self._times[0][0] < kept_from:
            self._times.popleft()

    def follow(self, version: int, at_us: int | None, retention: Retention) -> int:
        """Both; the oldest version that is kept."""
        oldest = self.oldest_after(version, at_us, retention)
        self.add(version, at_us, oldest)
        return oldest


def _is_recent(until_us: int | None, now_us: int | None, for_us: int | None) -> bool:
    """Whether a version that was the newest until `until_us` is kept for its age; not if that is not known."""
    return for_us is not None and until_us is not None and now_us is not None and until_us > now_us - for_us


class FilesKept:
    """The files that kept versions refer to: with their entries in the newest, or with the version that dropped them.

    A version that goes back may take up a file again that another had dropped.
    """

    def __init__(self, files: Iterable[str] = ()) -> None:
        self._entries = Counter(files)
        self._dropped: deque[tuple[int, str]] = deque()  # the oldest first
        self._dropped_at: dict[str, int] = {}  # by the last version that did it, where none has taken it up again
        self._unseen: list[str] = []  # that came and went with one version: none refers to them

    def change(self, version: int, changes: Iterable[tuple[str, int]]) -> None:
        """So many entries more, or fewer, of each file; one that has none is dropped by this version."""
        for file, change in changes:
            known = file in self._entries or file in self._dropped_at
            self._entries[file] += change
            if self._entries[file]:
                self._dropped_at.pop(file, None)
            elif not known:
                del self._entries[file]
                self._unseen.append(file)
            else:
                del self._entries[file]
                self._dropped.append((version, file))
                self._dropped_at[file] = version

    def pop(self, kept_from: int) -> list[str]:
        """The files that no version from `kept_from` on refers to, each told once."""
        found, self._unseen = self._unseen, []
        while self._dropped and self._dropped[0][0] <= kept_from:
            version, file = self._dropped.popleft()
            if self._dropped_at.get(file) == version:
                del self._dropped_at[file]
                found.append(file)
        return found

    def needed(self, kept_from: int) -> Iterator[str]:
        """The files that versions from `kept_from` on refer to."""
        yield from self._entries
        yield from (file for file, version in self._dropped_at.items() if version > kept_from)
