"""What a look through a checkpoint finds, as data: plain JSON, and the same whenever nothing has changed.

- *damage*: what a run needs is missing, or is not as it was written.
- *doubt*: it cannot be told whether something is missing. Not damage, and not nothing.
- *orphan*: a file that nothing refers to. Harmless: the next run that looks through the folder deletes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

DAMAGE, DOUBT, ORPHAN = "damage", "doubt", "orphan"

FROM_BACKUP = "Restore the file from a backup, or start again with a new checkpoint."
NEXT_RUN = "Nothing: the next run deletes it."


@dataclass(frozen=True, order=True)
class Finding:
    """`kind` is one of those above, `what` the kind of file, `file` where it is, or should be."""

    kind: str
    what: str
    file: str
    wrong: str
    to_do: str = FROM_BACKUP

    @property
    def about(self) -> tuple[str, str]:
        """Which file, whatever is wrong with it."""
        return self.what, self.file


@dataclass(frozen=True)
class Report:
    """All that was found, and how much of everything was looked at."""

    version: int | None
    findings: tuple[Finding, ...] = ()
    checked: Counter[str] = field(default_factory=Counter)  # files by kind, `rows` and `bytes`
    collected: int = 0  # files that a run deleted while they were looked at, as it may

    @property
    def sound(self) -> bool:
        return not self.of(DAMAGE)

    def of(self, kind: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind == kind]

    def to_json(self) -> dict[str, Any]:
        return {
            "sound": self.sound,
            "version": self.version,
            **{f"{kind}s" if kind != DAMAGE else kind: len(self.of(kind)) for kind in (DAMAGE, DOUBT, ORPHAN)},
            "findings": [asdict(finding) for finding in self.findings],
            "checked": dict(sorted(self.checked.items())),
            "collected_meanwhile": self.collected,
        }


def found_again(first: Iterable[Finding], second: Iterable[Finding]) -> list[Finding]:
    """Those of the second look that are about files which the first was about, too."""
    before = {finding.about for finding in first}
    return [finding for finding in second if finding.about in before]
