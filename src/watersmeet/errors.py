"""Every error that Watersmeet raises on purpose, in one tree sorted by whose move it is.

A message has a primary line (short, lower case, no full stop), and where they help a detail and a hint. The classes
carry them as fields; `render()` puts them together for a terminal. `exit_code` is what the command line returns.

- `UserError`: the user's move. Exit code 2.
  - `QueryError`: the query text; points into it.
  - `JobError`: the job file, an option or an argument.
  - `InputError`: a source's data: missing, unreadable, or not of the declared schema.
  - `AddressError`: the address of a folder: not understood, no such bucket, no access, or a client that is missing.
  - `CheckpointError`: this checkpoint cannot serve this run (in use, taken over, of another query, of a newer format).
  - `UserFunctionError`: a function of the user's raised, or gave what it must not: that of `foreachBatch`, or a
    registered predicate, which it points at.
- `StateConflictError`: another commit came first; refresh and try again. Exit code 1.
- `ResourceError`: the operator's move: disk full, a segment missing or corrupt. Exit code 1.
- `InternalError`: ours. Exit code 1.

Secrets are hidden in every part when an error is made, and once more when it is shown, whatever it was made from.

What an error was made from (Spark's own, as a rule with pages of Java) is chained to it only if the environment has
`WATERSMEET_TRACE=1`: `raise .. from cause(error)`.
"""

from __future__ import annotations

import difflib
import itertools
import os
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.secrets import hide, hide_in

TRACE = "WATERSMEET_TRACE"


class WatersmeetError(Exception):
    """The root of the tree: a primary line, and optionally a detail and a hint."""

    exit_code: ClassVar[int] = 1

    def __init__(self, primary: str, *, detail: str | None = None, hint: str | None = None) -> None:
        self.primary = hide(primary)
        self.detail = detail and hide(detail)
        self.hint = hint and hide(hint)
        super().__init__(self.primary, self.detail, self.hint)

    def __reduce__(self) -> tuple[object, ...]:
        return (rebuild, (type(self), self.__dict__.copy()))

    def __str__(self) -> str:
        return self.render()

    def replace(self, text: str, other: str) -> None:
        """Say `other` for `text` in all parts."""
        self.primary = self.primary.replace(text, other)
        self.detail = self.detail and self.detail.replace(text, other)
        self.hint = self.hint and self.hint.replace(text, other)
        self.args = (self.primary, self.detail, self.hint)

    def render(self) -> str:
        """The whole message, a line for each part, without secrets.

        >>> print(JobError('unknown key "slotz" in [run]', hint='Did you mean "slots"?').render())
        error: unknown key "slotz" in [run]
        hint: Did you mean "slots"?
        """
        lines = [f"error: {self.primary}"]
        if self.detail:
            lines.append(f"detail: {self.detail}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return hide("\n".join(lines))


def rebuild(kind: type[WatersmeetError], fields: dict[str, object]) -> WatersmeetError:
    # Errors cross process boundaries (from Spark's Python workers), and subclasses take other arguments.
    error = kind.__new__(kind)
    error.__dict__.update(hide_in(fields))
    error.args = (error.primary, error.detail, error.hint)
    return error


class UserError(WatersmeetError):
    """The user can mend it."""

    exit_code = 2


@dataclass(frozen=True)
class Span:
    """A stretch of the query text: offsets of its first character and of the one after its last."""

    start: int
    end: int


Place = tuple[str, Span]  # a text, and a stretch of it


class PlacedError(UserError):
    """Points at a place in the query text, where there is one."""

    text: str = ""
    span: Span | None = None

    def render(self) -> str:
        """Primary line, the line of the query with the place underlined, detail, hint.

        >>> print(QueryError('stream "A" has no column "x"', text="SELECT A.x\\nFROM A", span=Span(7, 10)).render())
        error: stream "A" has no column "x"
          line 1: SELECT A.x
                         ^^^
        """
        first, *rest = super().render().split("\n")
        return "\n".join([first, *_underline(self.text, self.span), *rest])


class QueryError(PlacedError):
    """The query text is wrong or asks for something that is not supported; points at the place."""

    def __init__(
        self,
        primary: str,
        *,
        text: str = "",
        span: Span | None = None,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(primary, detail=detail, hint=hint)
        self.text = text
        self.span = span


def _underline(text: str, span: Span | None) -> list[str]:
    if span is None or not text:
        return []
    line_start = text.rfind("\n", 0, span.start) + 1
    line_end = text.find("\n", span.start)
    line_end = len(text) if line_end < 0 else line_end
    label = f"  line {text.count(chr(10), 0, line_start) + 1}: "
    width = max(1, min(span.end, line_end) - span.start)
    # Tabs are kept in the padding so that the mark stands under its place whatever the terminal makes of them.
    padding = "".join(c if c == "\t" else " " for c in text[line_start : span.start])
    return [label + text[line_start:line_end], " " * len(label) + padding + "^" * width]


class JobError(UserError):
    """The job file, an option or a command-line argument is wrong."""


class OutputModeError(JobError, PlacedError):
    """The results of the query are not what the settings say that they are; points at what makes them so."""

    def __init__(self, primary: str, text: str, span: Span | None, detail: str, hint: str | None = None) -> None:
        super().__init__(primary, detail=detail, hint=hint)
        self.text = text
        self.span = span


class RingError(JobError):
    """A join that no hash serves cannot be spread in the way that the settings name."""


class InputError(UserError):
    """A source cannot be read, or its data is not what its schema says."""


class AddressError(UserError):
    """A folder cannot be reached by its address as it stands, and would not be a moment later."""


class CheckpointError(UserError):
    """The checkpoint cannot serve this run: in use, of another query, or of a newer format."""


class UserFunctionError(PlacedError):
    """A function of the user's raised, or gave what it must not. The detail has the last lines of its own traceback."""

    def __init__(
        self, primary: str, *, place: Place | None = None, detail: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(primary, detail=detail, hint=hint)
        self.text, self.span = place or ("", None)


class LimitError(UserError):
    """A batch would take more than a limit of the user's allows."""


class StateConflictError(WatersmeetError):
    """Another commit took this version number first; refresh and try again."""


class ResourceError(WatersmeetError):
    """The machine failed us: no space, a segment missing or corrupt. An operator's move."""


class InternalError(WatersmeetError):
    """A promise of ours does not hold. Please report it."""


def traces_wanted() -> bool:
    """Whether the environment asks for whole traces, on the command line and in the API alike."""
    return os.environ.get(TRACE, "0") not in ("", "0")


def cause(error: BaseException) -> BaseException | None:
    """What to chain an error of ours to that was made from `error`: `error` itself if traces are wanted, else None."""
    return error if traces_wanted() else None


_FRAMES = 3  # of a user's traceback, from either end


def user_function_error(error: BaseException, what: str, place: Place | None = None) -> UserFunctionError:
    """The error to raise for `error`, which `what` raised, with the calls that led to it, from the user's own on.

    >>> print(user_function_error(ValueError("no such account"), "the function of foreachBatch"))
    error: the function of foreachBatch raised ValueError: no such account
    hint: Correct the function, and start the run again.
    """
    ours = os.path.dirname(__file__) + os.sep
    frames = traceback.extract_tb(error.__traceback__)
    calls = list(itertools.dropwhile(lambda frame: frame.filename.startswith(ours), frames))
    lines = [f'  File "{call.filename}", line {call.lineno}, in {call.name}\n    {call.line}' for call in calls]
    if len(lines) > 2 * _FRAMES:
        lines[_FRAMES:-_FRAMES] = ["  .."]
    said = next(iter(str(error).splitlines()), "")[:600]
    return UserFunctionError(
        f"{what} raised {type(error).__name__}" + (f": {said}" if said else ""),
        place=place,
        detail="It was raised in\n" + "\n".join(lines) if lines else None,
        hint="Correct the function, and start the run again.",
    )


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest known name, or None when nothing is near.

    >>> did_you_mean("prise", ["auction", "price", "ts"])
    'Did you mean "price"?'
    """
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f'Did you mean "{near[0]}"?' if near else None
