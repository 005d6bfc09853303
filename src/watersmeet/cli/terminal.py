"""How the commands write to a terminal: sizes, and tables that do not fold where nobody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import pick_unit_and_suffix
from rich.progress import Progress, TextColumn
from rich.table import Table

_UNITS = ["B", "KB", "MB", "GB", "TB"]


def size_text(size_bytes: int) -> str:
    """A size with 1 KB = 1024 bytes, as settings are read.

    >>> size_text(500), size_text(1536), size_text(5 << 20)
    ('500 B', '1.5 KB', '5.0 MB')
    """
    unit, suffix = pick_unit_and_suffix(size_bytes, _UNITS, 1024)
    return f"{size_bytes} B" if unit == 1 else f"{size_bytes / unit:,.1f} {suffix}"


def output_console() -> Console:
    """Standard output; wide where it is no terminal, so that lines stay whole for other programs."""
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 10_000
    return console


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function to tell how much of a long work is done; shown on standard error, where that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    with Progress(
        *Progress.get_default_columns(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + what),
        console=console,
        transient=True,
    ) as shown:
        task = shown.add_task("", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def make_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> Table:
    """A table of text; the columns named in `right` hold numbers."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
