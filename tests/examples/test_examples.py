"""The examples run, small, and say that their answers are right."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "arguments", "found"),
    [
        ("near_in_space", ["--seconds", "6", "--riders", "30"], " offers"),
        ("similar_images", ["--things", "12"], "4 of the 4 things"),
    ],
)
def test_an_example_is_right(
    name: str, arguments: list[str], found: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / name / "run.py"), run_name="__main__")
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "a plain computation gives the same" in said
    assert found in said
    assert " 0 offers" not in said
