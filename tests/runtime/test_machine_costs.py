"""Cost constants of the machine: measured once, kept in a file, and read back."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from watersmeet.optimize.choose import STANDARD
from watersmeet.runtime import calibration
from watersmeet.runtime.machine_costs import machine_costs


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("WATERSMEET_COSTS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "watersmeet" / "costs.json"


def test_measured_once_and_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    begin = time.perf_counter()
    first = machine_costs(notes.append)
    assert time.perf_counter() - begin < 30  # a second or two on a quiet machine
    assert notes == ["measuring what joins cost on this machine (once, some two seconds)"]
    monkeypatch.setattr(calibration, "measure_costs", lambda: pytest.fail("measured again"))
    assert machine_costs() == first
    assert json.loads(file.read_text())["seconds"]["probe"] == first.probe


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"machine": {}}', '{"machine": {"machine": "another"}, "seconds": {}}']
)
def test_a_file_that_does_not_fit_is_made_anew(content: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(content)
    monkeypatch.setattr(calibration, "measure_costs", lambda: STANDARD)
    assert machine_costs() == STANDARD
    assert json.loads(file.read_text())["seconds"]["insert"] == STANDARD.insert


def test_a_folder_that_cannot_be_written_only_means_to_measure_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("in the way")
    monkeypatch.delenv("WATERSMEET_COSTS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "measure_costs", lambda: STANDARD)
    assert machine_costs() == STANDARD


def test_without_measuring_the_standard_ones_stand_in(file: Path) -> None:
    assert machine_costs(measure=False) == STANDARD
    assert not file.exists()
