"""What a step of a join saw on its way: for each pair of inputs, how many pairs of rows could meet and how many did."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts by pair of inputs, which are places in a node: first that of the new rows, then that of the rows met."""

    met: dict[tuple[int, int], list[int]] = field(default_factory=dict)  # [could meet, have the same hash]
    checked: dict[frozenset[int], list[int]] = field(default_factory=dict)  # [looked at, satisfy the predicates]

    def meet(self, first: int, second: int, possible: int, same: int) -> None:
        """`possible` pairs of a new row of the first and a row of the second could meet, `same` have the same hash."""
        entry = self.met.setdefault((first, second), [0, 0])
        entry[0] += possible
        entry[1] += same

    def check(self, inputs: frozenset[int], looked_at: int, satisfy: int) -> None:
        """Predicates that read these inputs looked at so many combinations, of which so many satisfy them."""
        entry = self.checked.setdefault(inputs, [0, 0])
        entry[0] += looked_at
        entry[1] += satisfy
