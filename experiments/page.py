"""A page of findings as data, and the one HTML file that it becomes: headings, paragraphs, tables and figures.

The page needs no other file: its style is in it, and its pictures are data URIs. Each picture is also written as a PNG
file beside the page, for use elsewhere. Text is plain text and is escaped here; no block takes markup.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal

Tone = Literal["plain", "good", "bad"]


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Code:
    """Text as it stands, such as a query."""

    text: str


@dataclass(frozen=True)
class Marked:
    """The text of a cell that says how things went."""

    text: str
    tone: Tone


Cell = str | Marked


@dataclass(frozen=True)
class Columns:
    """Columns that share a title, or stand beside each other with none. They hold numbers, on the right, or `text`,
    or `sentences`, which may take several lines.
    """

    title: str
    names: tuple[str, ...]
    text: bool = False
    sentences: bool = False


@dataclass(frozen=True)
class Table:
    columns: tuple[Columns, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A picture with its title in it. `name` is its file's, without ending; `what` is for those who cannot see it."""

    name: str
    png: bytes
    what: str


@dataclass(frozen=True)
class Figures:
    """Pictures side by side, as far as there is room."""

    items: tuple[Figure, ...]


Block = Heading | Paragraph | Code | Table | Figures


@dataclass(frozen=True)
class Page:
    title: str
    blocks: tuple[Block, ...]


def write_page(page: Page, folder: Path, name: str) -> Path:
    """Write NAME.html and the pictures into `folder`, made if it is not there; the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    for block in page.blocks:
        for figure in block.items if isinstance(block, Figures) else ():
            (folder / f"{figure.name}.png").write_bytes(figure.png)
    path = folder / f"{name}.html"
    path.write_text(render(page), encoding="utf-8")
    return path


def render(page: Page) -> str:
    """The page as HTML."""
    title = escape(page.title)
    body = "\n".join(_render(block) for block in page.blocks)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style>\n</head>\n'
        f"<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
    )


def _render(block: Block) -> str:
    match block:
        case Heading():
            return f"<h2>{escape(block.text)}</h2>"
        case Paragraph():
            return f"<p>{escape(block.text)}</p>"
        case Code():
            return f"<pre>{escape(block.text)}</pre>"
        case Table():
            return _table(block)
        case Figures():
            return f'<div class="figures">\n{"".join(map(_figure, block.items))}</div>'


def _table(table: Table) -> str:
    groups = "".join(
        f'<th colspan="{len(group.names)}"{_class("group" if group.title else "")}>{escape(group.title)}</th>'
        for group in table.columns
    )
    looks = [look for group in table.columns for look in _looks(group)]
    names = [name for group in table.columns for name in group.names]
    head = "".join(f"<th{_class(*look)}>{escape(name)}</th>" for name, look in zip(names, looks, strict=True))
    rows = "\n".join(
        "<tr>" + "".join(_cell(cell, look) for cell, look in zip(row, looks, strict=True)) + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    grouped = f"<tr>{groups}</tr>" if any(group.title for group in table.columns) else ""
    return (
        f'<div class="wide"><table>{caption}<thead>{grouped}<tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>'
        "</table></div>"
    )


def _looks(group: Columns) -> list[tuple[str, ...]]:
    """The classes of each column of a group; the first of a titled group has a line to its left."""
    kind = "sentence" if group.sentences else "text" if group.text else "number"
    return [(kind, "first") if place == 0 and group.title else (kind,) for place in range(len(group.names))]


def _cell(cell: Cell, look: tuple[str, ...]) -> str:
    if isinstance(cell, Marked):
        return f"<td{_class(*look, cell.tone)}>{escape(cell.text)}</td>"
    return f"<td{_class(*look)}>{escape(cell)}</td>"


def _class(*names: str) -> str:
    wanted = " ".join(name for name in names if name)
    return f' class="{wanted}"' if wanted else ""


def _figure(figure: Figure) -> str:
    data = base64.b64encode(figure.png).decode("ascii")
    return f'<figure><img src="data:image/png;base64,{data}" alt="{escape(figure.what)}"></figure>\n'


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 76rem; margin: 2rem auto;
  padding: 0 1.5rem; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { font-size: 1.25rem; margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 1px solid #ddd; }
p { max-width: 48rem; }
pre { background: #f6f6f4; padding: .7rem 1rem; overflow-x: auto; font-size: .82rem; }
.wide { overflow-x: auto; margin: 1.2rem 0; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: #555; padding-bottom: .4rem; }
th, td { padding: .3rem .45rem; border-bottom: 1px solid #e4e4e4; white-space: nowrap; }
th { font-weight: 600; vertical-align: bottom; }
th.group { text-align: center; border-left: 1px solid #ccc; }
.number { text-align: right; }
.text, .sentence { text-align: left; }
td.sentence { white-space: normal; min-width: 18rem; vertical-align: top; }
.first { border-left: 1px solid #ccc; }
.good { color: #00694b; font-weight: 600; }
.bad { color: #b3400a; font-weight: 600; }
.figures { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; margin: 1.5rem 0; }
figure { margin: 0; }
.figures img { width: 100%; height: auto; }
@media (max-width: 60rem) { .figures { grid-template-columns: 1fr; } }
"""
