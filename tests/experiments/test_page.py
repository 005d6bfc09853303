"""The page of an experiment: one file that needs no other, its pictures beside it, and no text taken for markup."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest

from experiments.figures import Chart, Line, draw
from experiments.page import (
    Code,
    Columns,
    Figure,
    Figures,
    Heading,
    Marked,
    Page,
    Paragraph,
    Table,
    render,
    write_page,
)
from watersmeet.errors import UserError

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_page_is_one_file_with_its_pictures_in_it_and_beside_it(tmp_path: Path) -> None:
    page = Page("Finding", (Heading("First"), Figures((Figure("one", b"picture 1", "x"), Figure("two", b"2", "y")))))
    path = write_page(page, tmp_path / "new" / "folder", "finding")
    assert path == tmp_path / "new" / "folder" / "finding.html"
    assert sorted(file.name for file in path.parent.iterdir()) == ["finding.html", "one.png", "two.png"]
    assert (path.parent / "one.png").read_bytes() == b"picture 1"
    text = path.read_text(encoding="utf-8")
    assert f"data:image/png;base64,{base64.b64encode(b'picture 1').decode()}" in text
    assert "one.png" not in text
    assert "http" not in text


def test_text_is_escaped() -> None:
    table = Table((Columns("<g>", ("<c>",)),), (("a < b",), (Marked("c & d", "bad"),)), caption='"q"')
    blocks = (Heading("<h>"), Paragraph("1 < 2"), Code("A & B\n  AND x"), table)
    text = render(Page("<title>", blocks))
    assert "<title>&lt;title&gt;</title>" in text
    assert "<h2>&lt;h&gt;</h2>" in text
    assert "<p>1 &lt; 2</p>" in text
    assert "<pre>A &amp; B\n  AND x</pre>" in text
    assert ">a &lt; b</td>" in text
    assert 'bad">c &amp; d</td>' in text


def test_a_group_of_columns_spans_them() -> None:
    table = Table((Columns("", ("set",), text=True), Columns("CPU", ("predicted", "measured"))), (("1", "2", "3"),))
    text = render(Page("t", (table,)))
    assert '<th colspan="2" class="group">CPU</th>' in text
    assert text.count("<th ") == 5
    assert '<td class="text">1</td><td class="number first">2</td><td class="number">3</td>' in text


def test_a_chart_is_a_png() -> None:
    lines = (Line("mjoin", [0, 1, 2], [0, 5, 9]), Line("bjtree", [0, 1], [0, 50], broken="out of memory"))
    picture = draw(Chart("Title", "seconds", "bytes", lines, ("mjoin", "bjtree"), "B", limit=40.0, limit_label="limit"))
    assert picture.startswith(PNG)


def test_without_matplotlib_there_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r'pip install "\.\[bench\]"'):
        draw(Chart("Title", "seconds", "rows", (), ()))
