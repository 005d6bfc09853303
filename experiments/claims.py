"""What a paper says beside what was measured: sentences, each with a verdict, and the tables that show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.page import Cell, Columns, Marked, Paragraph, Table

COLUMNS = ("figure", "the paper says", "measured here", "")


@dataclass(frozen=True)
class Claim:
    """`holds` is None where the runs cannot tell."""

    figure: str
    paper: str
    measured: str
    holds: bool | None
    why: str = ""  # it does not come out, or not for the paper's reason


def claims_table(claims: Sequence[Claim], caption: str) -> Table:
    return Table(
        columns=(
            Columns("", COLUMNS[:1], text=True),
            Columns("", COLUMNS[1:3], sentences=True),
            Columns("", COLUMNS[3:], text=True),
        ),
        rows=tuple((claim.figure, claim.paper, claim.measured, _verdict(claim)) for claim in claims),
        caption=caption,
    )


def reasons(claims: Sequence[Claim]) -> list[Paragraph]:
    """Why things came out otherwise, or larger; each reason once."""
    return [Paragraph(why) for why in dict.fromkeys(claim.why for claim in claims if claim.why)]


def terminal_rows(claims: Sequence[Claim]) -> list[tuple[str, ...]]:
    """The same table for a terminal."""
    rows: list[tuple[str, ...]] = []
    for claim in claims:
        verdict = _verdict(claim)
        rows.append((claim.figure, claim.paper, claim.measured, verdict if isinstance(verdict, str) else verdict.text))
    return rows


def _verdict(claim: Claim) -> Cell:
    if claim.holds is None:
        return "cannot tell"
    return Marked("comes out", "good") if claim.holds else Marked("does not come out", "bad")
