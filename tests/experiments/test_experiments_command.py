"""`python -m experiments`: a page, a table or JSON, and clear words for what cannot be."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from experiments import plan_runs
from experiments.__main__ import main
from experiments.plans import Setting
from watersmeet.optimize import CostConstants, CostModel

PANELS = ("queues", "results", "state-bytes", "state-rows")


@pytest.fixture(autouse=True)
def few_copies_and_known_prices(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(setting: Setting, model: CostModel) -> Setting:
        return replace(setting, copies=2)

    monkeypatch.setattr(plan_runs, "fill_machine", fill)
    prices = CostConstants(insert=2e-7, delete=0.0, join=3e-8, probe=5e-8, compare=4e-8)
    costs = tmp_path_factory.mktemp("prices") / "costs.json"
    costs.write_text(json.dumps({"machine": {}, "seconds": asdict(prices)}), encoding="utf-8")
    monkeypatch.setenv("WATERSMEET_COSTS", str(costs))


def test_writes_the_page_and_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["plans", "--set", "1", "--seconds", "3", "--clock", "cpu", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert sorted(file.name for file in out.iterdir()) == ["plans.html", *(f"set1-{panel}.png" for panel in PANELS)]
    text = (out / "plans.html").read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == 4
    assert "Set 1: CPU and memory suffice for both plans" in text
    assert "40 ns for a pair compared" in text
    assert "((A B) C)" in captured.out
    assert "2 of 2 plans did as the dissertation has it" in captured.out
    assert str(out / "plans.html") in captured.out
    assert "set 1, mjoin (A B C): 3 seconds .." in captured.err


def test_json_has_the_figures_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["plans", "--set", "3,1", "--seconds", "3", "--clock", "cpu", "--json"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["page"] == str(tmp_path / "plans.html")
    assert found["prices_seconds"]["compare"] == 4e-8
    assert [entry["set"] for entry in found["sets"]] == [3, 1]
    third, first = found["sets"]
    assert [plan["tree"] for plan in third["plans"]] == ["(A B C D)", "((A B) (C D))"]
    assert third["memory_limit_bytes"] == 220_000
    assert first["memory_limit_bytes"] is None
    # The window of set 3 is 5 s, so that nothing can be said of it yet; the window of set 1 is full after 2 s.
    assert third["plans"][0]["measured"]["cores"] is None
    assert first["plans"][0]["measured"]["cores"] > 0
    assert first["plans"][1]["measured"]["steady"]["rows_by_state"].keys() == {"A", "B", "C", "A B"}
    assert first["plans"][0]["dissertation"] == "qualifies"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "1,9"], 'error: there is no set "9"\ndetail: The sets are 1, 2, 3, 4.'),
        (["--set", ""], 'error: there is no set ""'),
        (["--out", "{file}"], 'error: cannot make the folder "{file}"\ndetail: File exists.'),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()
    arguments = [argument.format(file=file) for argument in arguments]
    if "--out" not in arguments:
        arguments += ["--out", str(tmp_path / "out")]
    assert main(["plans", *arguments]) == 2
    assert capsys.readouterr().err.startswith(words.format(file=file))
    assert not (tmp_path / "out").exists()


def test_without_matplotlib_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["plans", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        'error: experiments need the package matplotlib\nhint: Install it with: pip install ".[bench]"\n'
    )


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "x"])
def test_seconds_must_be_above_zero(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plans", "--seconds", seconds])
    assert f'"{seconds}" is not a number above zero' in capsys.readouterr().err
