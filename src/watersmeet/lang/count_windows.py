"""What `[ROWS n]` does not go together with: refused with an error that points at the window. Nothing is guessed.

Groups count a joined row until it leaves its windows, and of a window of rows nobody knows when that is before its n-th
successor has come. A join without an equality is spread by event time, and a window of rows says nothing of how far in
time its rows reach.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.lang.dialect import window_of
from watersmeet.lang.scope import ScopeInput
from watersmeet.lang.source import Source
from watersmeet.model.streams import Rows
from watersmeet.plan.query import Query


def refuse_with_groups(inputs: Sequence[ScopeInput], source: Source) -> None:
    """Refuse windows of rows where results are grouped."""
    _refuse(
        inputs,
        source,
        "[ROWS n] does not go together with GROUP BY or DISTINCT",
        "Groups count joined rows by the time at which they leave their windows, which a number of rows does not say.",
    )


def refuse_without_equality(query: Query, inputs: Sequence[ScopeInput], source: Source) -> None:
    """Refuse windows of rows where some inputs are connected by no equality."""
    if len(query.parts) > 1:
        parts = " and of ".join(", ".join(a for a in query.aliases if a in part) for part in query.parts)
        _refuse(
            inputs,
            source,
            "[ROWS n] needs equalities that connect all inputs",
            f"No equality connects rows of {parts}, so that they are spread by event time.",
        )


def _refuse(inputs: Sequence[ScopeInput], source: Source, primary: str, detail: str) -> None:
    for entry in inputs:
        if isinstance(entry.window, Rows) and (clause := window_of(entry.table, source)) is not None:
            hint = "Say how long rows are needed instead, such as [RANGE 30 MINUTES]."
            source.refuse(primary, clause.span, detail=detail, hint=hint)
