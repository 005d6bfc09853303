"""What follows from the declarations of settings is as `tools/write_settings.py` writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.write_settings import ROOT, files, tables

FILES = files()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_follow_from_the_declarations(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == FILES[path], "run: make settings"


def test_each_table_has_its_place() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    for name in tables():
        assert pages.count(f"<!-- {name} -->") == 1
