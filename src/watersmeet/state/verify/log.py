"""Checks the log of a checkpoint: every version and snapshot, their chain of digests, the head and the claims.

Reads alone. Goes on where something is wrong, so that one look finds all of it; what can still be read is in `kept`.
A live run adds versions and deletes old ones meanwhile, so that what one look finds need not be damage: see `walk.py`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import ResourceError
from watersmeet.state.files import Folder
from watersmeet.state.head import HEAD, read_head
from watersmeet.state.manifest import Manifest
from watersmeet.state.table import (
    OlderFormatError,
    corruption,
    decode,
    follow,
    table_folders,
    table_numbers,
    version_name,
)
from watersmeet.state.verify.findings import DAMAGE, DOUBT, Finding

VERSION, SNAPSHOT, HEAD_FILE, CLAIM = "version", "snapshot", "head", "claim"
Sealed = dict[int, tuple[dict[str, Any], str]]  # content and digest, by version


@dataclass(frozen=True)
class LogReading:
    """The log at one look: the versions whose files are kept, oldest first, each with its digest; what is wrong."""

    kept: tuple[tuple[Manifest, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    checked: Counter[str] = field(default_factory=Counter)

    @property
    def newest(self) -> Manifest | None:
        return self.kept[-1][0] if self.kept else None

    @property
    def manifests(self) -> list[Manifest]:
        return [manifest for manifest, _ in self.kept]


def check_log(root: Folder) -> LogReading | None:
    """Look through the log under `root` once; None if there is none."""
    head = read_head(root)
    versions, snapshots = table_folders(root)
    listed, taken = sorted(table_numbers(versions)), sorted(table_numbers(snapshots))  # in this order, see `_read_log`
    if not listed and not taken:
        return None
    log = _Log(root, versions, snapshots)
    log.snapshots = dict(log.decoded(snapshots, SNAPSHOT, taken))
    log.versions = dict(log.decoded(versions, VERSION, listed))
    newest = max([*listed, *taken])
    log.check_first(listed, taken)
    log.check_links()
    kept = log.replay(newest)
    log.check_claims(kept[-1][0] if kept else None, listed)
    if root.local:
        log.check_head(head, newest, {number: digest for number, (_, digest) in log.versions.items()})
    needed = tuple(entry for entry in kept if entry[0].version >= kept[-1][0].kept_from)
    return LogReading(needed, tuple(log.findings), log.checked)


def _kept_from(contents: Mapping[int, tuple[Mapping[str, Any], str]]) -> int:
    """The oldest version that was kept with the newest of these files."""
    return int(contents[max(contents)][0]["kept_from"]) if contents else 0


class _Log:
    def __init__(self, root: Folder, versions: Folder, snapshots: Folder) -> None:
        self.root = root
        self.folders = {VERSION: versions, SNAPSHOT: snapshots}
        self.versions: Sealed = {}
        self.snapshots: Sealed = {}
        self.findings: list[Finding] = []
        self._unsound: set[int] = set()  # versions with a finding
        self.checked: Counter[str] = Counter()

    def decoded(self, folder: Folder, what: str, numbers: Sequence[int]) -> Iterator[tuple[int, tuple[Any, str]]]:
        """The files that can be read, by number. One that goes meanwhile is as if it had not been listed."""
        for number in numbers:
            name = version_name(number)
            try:
                content, digest = decode(folder, name)
                with corruption(folder, name):
                    if content["version"] != number:
                        raise ValueError(f"it holds version {content['version']}")
            except FileNotFoundError:
                continue
            except OlderFormatError:
                if number == max(numbers):
                    raise  # only a run can make sense of it
                continue
            except ResourceError as error:
                self.found(what, number, error.detail or error.primary)
            else:
                yield number, (content, digest)
            self.checked[what] += 1

    def found(self, what: str, number: int, wrong: str, kind: str = DAMAGE) -> None:
        folder = self.folders[VERSION if what == CLAIM else what]
        path = folder.path(version_name(number))
        if what in (VERSION, CLAIM):
            self._unsound.add(number)
        self.findings.append(Finding(kind, what, path, wrong.removeprefix(f"{path}: ").rstrip(".")))

    @property
    def _floor(self) -> int:
        """Below it files may be going: the last snapshot has made them superfluous. A killed run may have left some."""
        kept_from = _kept_from(self.snapshots)
        return max([number for number in self.snapshots if number <= kept_from], default=0)

    def check_first(self, listed: Sequence[int], taken: Sequence[int]) -> None:
        """What the log begins with: version 0 stays for ever, and below the other versions there is a snapshot."""
        if 0 not in taken:
            self.found(SNAPSHOT, 0, "it is missing, and keeps its name taken for late comers", DOUBT)
        others = set(listed) - {claim for content, _ in self.snapshots.values() for claim in content["claims"]}
        low = min(others, default=1)
        if low > 1 and not any(0 < number <= low for number in taken):
            later = [number for number in taken if number > low]
            wrong = "versions after it are there, and no snapshot that they could be read from"
            self.found(SNAPSHOT, low, wrong, DOUBT if later else DAMAGE)

    def check_links(self) -> None:
        """Each version names the digest of the one before it, and a snapshot that of its own."""
        floor = self._floor
        for number, (content, _) in self.versions.items():
            before = self.versions.get(number - 1)
            if before is None and number == 1 and 0 in self.snapshots:
                before = self.snapshots[0]
            if before is not None and content["after"] != before[1]:
                self.found(VERSION, number, "it does not follow the version before it, one of the two is another file")
        for number, (content, _) in self.snapshots.items():
            own = self.versions.get(number)
            if own is not None and content.get("digest") not in (None, own[1]):
                self.found(SNAPSHOT, number, "it does not stand for the version of its number, which is another file")
            if own is None and "digest" in content and number >= floor and not self._told(number):
                self.found(VERSION, number, "it is missing, and its snapshot is there, so that nothing needs it", DOUBT)

    def replay(self, newest: int) -> list[tuple[Manifest, str]]:
        """The versions that can be made, from the oldest on that leads to the newest without a gap."""
        starts = sorted(self.snapshots)
        whole = [n for n in starts if all(number in self.versions for number in range(n + 1, newest + 1))]
        if whole:
            kept_from = _kept_from(self.versions)
            self._miss(self._floor + 1, min(whole[0], kept_from), DOUBT)
            self._miss(max(self._floor + 1, kept_from), whole[0], DAMAGE)
            return list(self._from(whole[0], newest))
        start = starts[-1] if starts else -1
        self._miss(max(start, 0) + 1, newest + 1, DAMAGE)
        if start < 0 and not any(finding.what == SNAPSHOT for finding in self.findings):
            self.found(SNAPSHOT, 0, "there are versions, and no snapshot to begin from")
        return list(self._from(start, newest)) if start >= 0 else []

    def _miss(self, begin: int, end: int, kind: str) -> None:
        """Say which versions from `begin` on are missing; of many that follow each other, at once.

        Where a snapshot cannot be read, they are all that there ever were before it.
        """
        known = sorted(number for number in {*self.versions, *self._unsound} if begin <= number < end)
        for before, after in itertools.pairwise([begin - 1, *known, end]):
            if (missing := after - before - 1) > 0:
                what = "it is missing" if missing == 1 else f"it and the {missing - 1:,} after it are missing"
                self.found(VERSION, before + 1, f"{what}, and there are later ones", kind)

    def _told(self, number: int) -> bool:
        return number in self._unsound

    def _from(self, start: int, newest: int) -> Iterator[tuple[Manifest, str]]:
        content, own = self.snapshots[start]
        try:
            with corruption(self.folders[SNAPSHOT], version_name(start)):
                manifest = Manifest.from_json(content)
        except ResourceError as error:
            self.found(SNAPSHOT, start, error.detail or error.primary)
            return
        yield manifest, content.get("digest", own)
        for number in range(start + 1, newest + 1):
            if number not in self.versions:
                return
            content, digest = self.versions[number]
            try:
                with corruption(self.folders[VERSION], version_name(number)):
                    manifest, _ = follow(manifest, content)
                    self._compare(number, manifest)
            except ResourceError as error:
                self.found(VERSION, number, error.detail or error.primary)
                return
            yield manifest, digest

    def _compare(self, number: int, manifest: Manifest) -> None:
        """A snapshot says what its version says: of the files that are referred to, and of what was read."""
        if number not in self.snapshots:
            return
        with corruption(self.folders[SNAPSHOT], version_name(number)):
            said = Manifest.from_json(self.snapshots[number][0])
        same = (
            dict(said.segments.items()) == dict(manifest.segments.items())
            and said.streams == manifest.streams
            and said.undelivered == manifest.undelivered
            and said.last_batch == manifest.last_batch
        )
        if not same:
            self.found(SNAPSHOT, number, "it says another state than the versions that lead to it")

    def check_claims(self, manifest: Manifest | None, listed: Sequence[int]) -> None:
        """The versions with which runs took the checkpoint are all there: they keep their names taken."""
        for number in () if manifest is None else manifest.claims:
            self.checked[CLAIM] += number in listed
            if number not in listed:
                self.found(CLAIM, number, "it is missing; a run of before that claim could commit in its place")

    def check_head(self, head: Any, newest: int, digests: dict[int, str]) -> None:
        path = self.root.path(HEAD)
        if head is None:
            self._head(path, "it is missing or damaged", "Nothing is lost: the next run writes it anew.")
            return
        self.checked[HEAD_FILE] += 1
        if head.version > newest:
            self._head(path, f"it names version {head.version}, and the newest that is there is {newest}")
        elif head.version in digests and digests[head.version] != head.digest:
            self._head(path, f"it names another file as version {head.version}")

    def _head(self, path: str, wrong: str, to_do: str | None = None) -> None:
        self.findings.append(Finding(DAMAGE, HEAD_FILE, path, wrong, *([to_do] if to_do else [])))
