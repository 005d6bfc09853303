"""How long rows of inputs are kept, and why, in words: for explain and for errors. Pure."""

from __future__ import annotations

from watersmeet.model.pair_windows import PairWindow, Reach
from watersmeet.model.quantities import duration_text, microseconds
from watersmeet.model.streams import Range
from watersmeet.plan.query import Query


def bound_text(query: Query, bound: PairWindow) -> str:
    """A bound as a comparison of two event times; of an input's own window, as it was written."""
    first, second = (f"{alias}.{query.input(alias).stream.time}" for alias in (bound.first, bound.second))
    window = query.input(bound.first).window
    if isinstance(window, Range) and bound.most_us == microseconds(window.width) - 1 and _is_range(query, bound):
        return f"[RANGE {duration_text(bound.most_us + 1).upper()}] of {bound.first}"
    # At most 299,999,999 microseconds later is less than 5 minutes later.
    is_less = _roundness(bound.most_us + 1) > _roundness(bound.most_us)
    most = bound.most_us + is_less
    sign, after = (
        "<" if is_less else "<=",
        "" if not most else f" {'+' if most > 0 else '-'} {duration_text(abs(most))}",
    )
    return f"{second} {sign} {first}{after}"


def _is_range(query: Query, bound: PairWindow) -> bool:
    return bound not in query.pair_bounds


def _roundness(micros: int) -> int:
    """How many microseconds the unit has that says it best; 0 needs none."""
    if micros == 0:
        return 1 << 62
    return next(size for size in (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1) if not micros % size)


def stay_text(reach: Reach, alias: str) -> str:
    """For how long rows of an input are kept."""
    width, last = reach.kept_for_us(alias), reach.last_to_need(alias)
    if width is None:
        return "kept for ever"
    most = width - (width % 1_000 == 1)  # a row is needed up to its last microsecond, which is nothing to speak of
    if most > 0:
        return f"kept for {duration_text(most)}"
    return f"kept until {last} has come to {f'{duration_text(-most)} before ' if most else ''}their event time"


def kept_text(query: Query, reach: Reach, alias: str) -> str:
    """The same as a sentence, with the reason."""
    last, bound = reach.last_to_need(alias), reach.kept_for_us(alias)
    if bound is None:
        own, other = (f"{name}.{query.input(name).stream.time}" for name in (alias, last))
        because = f"nothing says how much later {other} can be than {own}"
    else:
        because = " and ".join(bound_text(query, each) for each in reach.path(alias, last))
    return f"rows of {alias} are {stay_text(reach, alias)}, because {because}"
