"""A tree of texts, drawn with lines that lead from each text to those below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Branch:
    """Lines of text, and the branches below them.

    >>> top = Branch(["top", "more of it"])
    >>> top.add(["left"]).add(["below", "left"])
    Branch(text=['below', 'left'], below=[])
    >>> top.add(["right"])
    Branch(text=['right'], below=[])
    >>> print("\\n".join(top.lines()))
    top
    more of it
    ├── left
    │   └── below
    │       left
    └── right
    """

    text: Sequence[str]
    below: list[Branch] = field(default_factory=list)

    def add(self, text: Sequence[str]) -> Branch:
        """Put a branch below this one, after those that are there, and return it."""
        branch = Branch(text)
        self.below.append(branch)
        return branch

    def lines(self) -> Iterator[str]:
        yield from "\n".join(self.text).split("\n")  # a text literal may hold an end of line
        for branch in self.below:
            first, *rest = branch.lines()
            is_last = branch is self.below[-1]
            yield f"{'└── ' if is_last else '├── '}{first}"
            yield from (f"{'    ' if is_last else '│   '}{line}" for line in rest)
