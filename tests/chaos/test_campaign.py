"""A small share of the chaos campaign (`make chaos`), and that the campaign can find what it looks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from chaos.__main__ import main
from chaos.campaign import Outcome, play
from chaos.deaths import DieAnywhere
from chaos.feed import Feed
from chaos.kinds import FAULTS, fault_named
from chaos.ordinary import Arrive, Settle
from chaos.shapes import MIXED, PAIRS, RING, ROUTED, SHAPES, TREE, UNBOUNDED, WINDOW, Shape
from chaos.stories import Story, episodes
from chaos.world import World
from watersmeet.runtime.outputs import Outputs
from watersmeet.state.manifest import Delivery

BY_NAME = {shape.name: shape for shape in SHAPES}


def check(outcome: Outcome) -> None:
    assert outcome.failures == []
    assert outcome.never == []
    assert outcome.good


def test_a_history_of_everything(tmp_path: Path) -> None:
    story = Story(BY_NAME["tree-budget"], 1, actions=100, kinds=FAULTS)
    outcome = play([story], tmp_path)
    assert outcome.failures == []
    assert outcome.tally.wrong == 0
    assert outcome.tally.rows > 3_000
    assert outcome.tally.late > 100
    assert outcome.fired.total() > 10
    assert outcome.counts["SpillGroups"] > 20
    assert outcome.counts["MergeGroup"] > 20


@pytest.mark.parametrize("shape", ["pairs-budget", "ring", "mixed", "aligned-budget", "grouped", "grouped-budget"])
@pytest.mark.share(2)
def test_histories_of_other_queries(shape: str, tmp_path: Path) -> None:
    outcome = play([Story(BY_NAME[shape], 3, actions=40, kinds=FAULTS)], tmp_path)
    assert outcome.failures == []
    assert outcome.tally.wrong == 0
    assert outcome.tally.rows > 500
    assert outcome.fired.total() > 3


@pytest.mark.parametrize("fault", [kind.name for kind in FAULTS])
@pytest.mark.share(2)
def test_every_fault_strikes(fault: str, tmp_path: Path) -> None:
    seeds = range(1, 2 if fault == "in-a-row" else 3)
    outcome = play(episodes([BY_NAME["window-budget"]], [fault_named(fault)], seeds), tmp_path)
    if outcome.left_out:
        pytest.skip("mounting a small filesystem needs root")
    check(outcome)


def test_a_seed_repeats_itself(tmp_path: Path) -> None:
    journals = []
    for number in range(2):
        story = Story(BY_NAME["tree-budget"], 5, actions=40, kinds=FAULTS)
        play([story], tmp_path / f"{number}")
        journals.append((tmp_path / f"{number}" / "journal-0.jsonl").read_text())
    assert journals[0] == journals[1]
    assert len(journals[0].splitlines()) == 40


# --- the campaign can fail -------------------------------------------------------------------------------------------


def failures(story: Story, folder: Path) -> list[str]:
    outcome = play([story], folder)
    assert not outcome.good
    return outcome.failures


def test_it_finds_what_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outputs, "deliver", skip_one(Outputs.deliver))
    (found,) = failures(Story(WINDOW, 1, actions=20), tmp_path)
    assert "lost=" in found
    assert "python -m chaos --shape window --seed 1 --actions 20" in found


def skip_one(deliver: Callable[..., Any]) -> Callable[..., Any]:
    """The third delivery is taken for done."""
    left = [3]

    def skipping(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        return deliver(*arguments, **options) if left[0] else []

    return skipping


def test_it_finds_what_is_doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deliver_twice(outputs: Outputs, delivery: Delivery) -> Any:
        folders = deliver(outputs, delivery)
        for folder in folders:
            for name in delivery.results:
                folder.write(f"again-{name}", lambda sink, n=name, f=folder: sink.write(f.read(n)))
        return folders

    deliver = Outputs.deliver
    monkeypatch.setattr(Outputs, "deliver", deliver_twice)
    (found,) = failures(Story(TREE, 1, actions=20), tmp_path)
    assert "rows that came before" in found


def test_it_finds_what_a_loss_of_power_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same that holds with `durability = "power-loss"` must go wrong without."""
    text = World.job_text

    def job_text(world: World, runtime: str, more: Iterable[str] = ()) -> str:
        return text(world, runtime, more).replace("groups =", 'durability = "process"\ngroups =')

    monkeypatch.setattr(World, "job_text", job_text)
    found = 0
    for seed in range(6):
        world = World(WINDOW, tmp_path / f"{seed}", tmp_path / f"in-{seed}", seed)
        actions = [Arrive(WINDOW.streams, 3), DieAnywhere(60, power=True), *[Arrive(WINDOW.streams)] * 6, Settle()]
        try:
            world.play(actions)
        except Exception:
            found += 1
    assert found


# --- the closed form -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [WINDOW, UNBOUNDED, TREE, ROUTED, PAIRS, RING, MIXED], ids=lambda shape: shape.name)
def test_the_closed_form_is_what_duckdb_says(shape: Shape, tmp_path: Path) -> None:
    import duckdb

    feed = Feed(shape, tmp_path)
    for number in range(24):
        for name in shape.streams:
            feed.arrive(name, ("", "swap", "hold")[(number + len(name) * ord(name[0])) % 3], extra_late=1)
    assert all(stream.late for stream in feed.streams.values())
    names = shape.streams
    newest = f"greatest({', '.join(f'{name}.ts' for name in names)})"
    windows = (
        [f"{newest} - {name}.ts < {shape.width}" for name in names] if shape.windowed and not shape.by_pairs else []
    )
    with duckdb.connect() as connection:
        for name in names:
            late = ", ".join(map(str, feed.streams[name].late))
            source = f"SELECT * FROM read_parquet('{tmp_path}/{name}/*.parquet') WHERE v NOT IN ({late})"
            connection.execute(f"CREATE TABLE {name} AS {source}")
        columns = ", ".join(f"{name}.v" for name in names)
        query = f"SELECT {columns} FROM {', '.join(names)} WHERE {' AND '.join([shape.conditions, *windows])}"
        answer = sorted(connection.sql(query).fetchall())
    expected = feed.expected()
    first = [
        (int(row), *(int(row + d) for d in shape.offsets[place]))
        for row, place in zip(*expected.nonzero(), strict=True)
    ]
    assert len(answer) > 500
    assert answer == sorted(first)


# --- the command -----------------------------------------------------------------------------------------------------


def run(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(arguments)
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--shape", "window", "--fault", "dies-after-commit", "--seeds", "1", "--keep", str(tmp_path)]
    code, out, _ = run([*arguments, "--json"], capsys)
    found = json.loads(out)
    assert (code, found["failures"]) == (0, [])
    (cell,) = found["cells"]
    assert (cell["shape"], cell["fault"], cell["seeds"]) == ("window", "dies-after-commit", 1)
    assert cell["fired"] >= 1
    code, out, _ = run(arguments, capsys)
    assert code == 0
    assert "0 lost, 0 doubled, 0 invented" in out


def test_unknown_names_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(["--shape", "windw"], capsys)
    assert code == 2
    assert 'there is no shape "windw"' in err
    assert 'Did you mean "window"?' in err
