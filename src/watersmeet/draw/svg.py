"""A drawing as SVG text: shapes, pipes, drums, and texts that never reach further than they may.

The text is plain ASCII and self-contained: no script, no font, no file. A picture has no font to ask, so the width of
text is reckoned, generously: as in the widest of the usual fonts. What is too long is cut, and the whole of it is a
tooltip.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from xml.etree import ElementTree

LINE = 1.4  # height of a line of text over its font size
INK = "#1d2733"
WATER, WATER_LIGHT = "#5a9fd0", "#e1effa"
SANS = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
MONO = "Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace"

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Style:
    size: float
    fill: str = INK
    bold: bool = False
    mono: bool = False

    @property
    def height(self) -> float:
        return self.size * LINE

    def width(self, text: str) -> float:
        """How wide `text` is, at most: as in the widest of the usual fonts."""
        return self.size * sum(map(self._share, text)) * (1.08 if self.bold else 1.0)

    def _share(self, char: str) -> float:
        if unicodedata.east_asian_width(char) in "WF":
            return 1.2
        if self.mono:
            return 0.61
        if char in " .,:;'|!()[]-Iijltfr":
            return 0.42
        return 0.98 if char in "MWmw@%&…" else 0.72 if char.isupper() else 0.63


def clean(text: str) -> str:
    """`text` as XML may hold it, on one line."""
    return _NOT_XML.sub("\ufffd", re.sub(r"\s", " ", text))


def fit(text: str, style: Style, limit: float) -> str:
    """`text`, cut and with an ellipsis where it is wider than `limit`."""
    if style.width(text) <= limit:
        return text
    kept = len(text)
    while kept and style.width(text[:kept] + "…") > limit:
        kept -= 1
    return text[:kept].rstrip() + "…"


def wrap(text: str, style: Style, limit: float, most: int) -> list[str]:
    """`text` in at most `most` lines, broken at spaces; what does not fit is cut."""
    lines: list[str] = []
    for word in text.split():
        if lines and style.width(f"{lines[-1]} {word}") <= limit:
            lines[-1] += f" {word}"
        else:
            lines.append(fit(word, style, limit))
    if len(lines) > most:
        lines = [*lines[: most - 1], fit(f"{lines[most - 1]} …", style, limit)]
    return lines


class Canvas:
    """An SVG that grows: shapes and texts, in the order in which they cover each other."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "font-family": SANS})
        self._open = self.root
        self._title = ElementTree.SubElement(self.root, "title")
        self._ground = self.shape("rect", width=width, fill="#ffffff")

    def finish(self, height: float, title: str) -> str:
        size = {"width": _number(self.width), "height": _number(height)}
        self.root.attrib |= {**size, "viewBox": f"0 0 {size['width']} {size['height']}", "role": "img"}
        self._ground.set("height", size["height"])
        self._title.text = clean(title)
        ElementTree.indent(self.root)
        data: bytes = ElementTree.tostring(self.root, encoding="us-ascii")
        return data.decode() + "\n"

    @contextmanager
    def group(self, kind: str, tooltip: str = "") -> Iterator[None]:
        """What is drawn in here belongs together, and shows `tooltip` where the mouse rests."""
        outer = self._open
        self._open = ElementTree.SubElement(outer, "g", {"class": kind} if kind else {})
        if tooltip:
            ElementTree.SubElement(self._open, "title").text = _NOT_XML.sub("\ufffd", tooltip)
        yield
        self._open = outer

    def shape(self, kind: str, **attributes: float | str) -> ElementTree.Element:
        named = {name.replace("_", "-"): _number(value) for name, value in attributes.items()}
        return ElementTree.SubElement(self._open, kind, named)

    def text(
        self, x: float, y: float, text: str, style: Style, limit: float, anchor: str = "start", tooltip: str = ""
    ) -> None:
        """One line with its base at `y`, cut to `limit`; a text that was cut has the whole of it as tooltip."""
        text = clean(text)
        shown = fit(text, style, limit)
        if shown != text or tooltip:
            with self.group("", tooltip or text):
                return self._text(x, y, shown, style, anchor)
        return self._text(x, y, shown, style, anchor)

    def _text(self, x: float, y: float, text: str, style: Style, anchor: str) -> None:
        look: dict[str, float | str] = {"font_size": style.size, "fill": style.fill}
        look |= {"text_anchor": anchor} if anchor != "start" else {}
        look |= {"font_weight": "bold"} if style.bold else {}
        look |= {"font_family": MONO} if style.mono else {}
        self.shape("text", x=x, y=y, **look).text = text

    def label(self, x: float, y: float, text: str, style: Style, limit: float, dashes: str = "none") -> None:
        """A text on a small white plate with its middle at (x, y), to stand on a pipe."""
        width = min(limit, style.width(clean(text)) + 14)
        look = {"fill": "#ffffff", "stroke": WATER if dashes == "none" else style.fill, "stroke_dasharray": dashes}
        self.shape("rect", x=x - width / 2, y=y - 9, width=width, height=18, rx=9, **look)
        self.text(x, y + style.size * 0.35, text, style, limit - 12, "middle")

    def pipe(self, x: float, low: float, high: float, thickness: float) -> None:
        """Rows that rise from `low` to `high`."""
        tip = thickness / 2 + 4
        self.shape("line", x1=x, y1=low, x2=x, y2=high + tip, stroke=WATER, stroke_width=thickness)
        points = f"{_number(x - tip)},{_number(high + tip + 1)} {_number(x + tip)},{_number(high + tip + 1)}"
        self.shape("polygon", points=f"{points} {_number(x)},{_number(high)}", fill=WATER)

    def drum(self, x: float, y: float, width: float, height: float, tilt: float) -> None:
        """A drum with its upper left corner at (x, y)."""
        arc = f"a {_number(width / 2)} {_number(tilt)} 0 0 0 {_number(width)} 0"
        body = f"M {_number(x)} {_number(y + tilt)} v {_number(height - 2 * tilt)} {arc} v {_number(2 * tilt - height)}"
        self.shape("path", d=body, fill=WATER_LIGHT, stroke=WATER)
        self.shape("ellipse", cx=x + width / 2, cy=y + tilt, rx=width / 2, ry=tilt, fill="#ffffff", stroke=WATER)


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
