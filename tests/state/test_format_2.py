"""Checkpoints of format 2: what each update meant then, and the snapshot of the present format that is made of them.

`tests/test_golden_checkpoints.py` runs jobs on from such checkpoints; here are the pieces.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from watersmeet.config import load_job
from watersmeet.errors import CheckpointError, ResourceError
from watersmeet.lang.binder import bind
from watersmeet.model.ids import LIVE, SegmentId
from watersmeet.model.routing import expand_ranges
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.query import Query
from watersmeet.state.files import Folder
from watersmeet.state.format_2 import upgrade_from_2
from watersmeet.state.ledger import Ledgers
from watersmeet.state.manifest import FORMAT, Manifest
from watersmeet.state.table import FileTable, OlderFormatError, drop_before, table_folders, table_numbers

GOLDENS = Path(__file__).parents[1] / "golden" / "checkpoints"
NAMES = sorted(path.parents[1].name for path in GOLDENS.glob("*/ck/state"))


class Old:
    """A copy of the state of a golden checkpoint, and the query that it belongs to."""

    def __init__(self, name: str, home: Path) -> None:
        shutil.copytree(GOLDENS / name / "ck" / "state", home / "state")
        job = load_job(GOLDENS / name / "job.toml")
        self.root = Folder(str(home / "state"))
        self.query: Query = bind(job.query, job.streams())
        self.versions, self.snapshots = table_folders(self.root)

    @property
    def newest(self) -> int:
        return max(table_numbers(self.versions))

    def file(self, number: int, kind: str = "versions") -> Path:
        return Path(self.root.path(f"{kind}/{number:020d}.json"))

    def add_version(self, *updates: dict[str, Any]) -> None:
        number = self.newest + 1
        self.file(number).write_text(json.dumps({"format": 2, "version": number, "batch": 0, "updates": updates}))

    def upgraded(self) -> Manifest:
        upgrade_from_2(self.root, self.query)
        table = FileTable.open(self.root)
        assert table is not None
        return table.manifest


@pytest.fixture
def spilled(tmp_path: Path) -> Old:
    """((A B) C) within a budget; both joins owe results."""
    return Old("local-tree-spilled", tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_the_newest_version_becomes_a_snapshot_and_all_before_it_goes(name: str, tmp_path: Path) -> None:
    old = Old(name, tmp_path)
    with pytest.raises(OlderFormatError):
        FileTable.open(old.root)
    newest = old.newest
    manifest = old.upgraded()
    assert manifest.version == newest + 1
    assert (table_numbers(old.snapshots), table_numbers(old.versions)) == ([newest + 1], [])
    assert json.loads(old.file(newest + 1, "snapshots").read_text())["format"] == FORMAT
    plan = lay_out_spec(old.query, manifest.answering.spec)
    assert {segment.state for segment in manifest.segments.values()} <= set(plan.states)
    assert set(manifest.figures) <= set(plan.operators)
    assert [entry.id for entry in manifest.undelivered] == [manifest.next_delivery - 1], "the last one, once more"
    Ledgers(plan).at(manifest)


def test_an_upgrade_that_is_cut_short_is_done_all_the_same(spilled: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after the snapshot was written, and before what came before it had gone."""
    monkeypatch.setattr("watersmeet.state.format_2.drop_before", lambda *_: None)
    upgraded = spilled.upgraded()
    again = FileTable.open(spilled.root)
    assert again is not None
    assert again.manifest == upgraded
    again.commit([], [])
    drop_before(1, spilled.versions, spilled.snapshots)
    assert FileTable.open(spilled.root).manifest == again.manifest  # type: ignore[union-attr]


def test_another_query_is_refused_and_nothing_changes(spilled: Old, tmp_path: Path) -> None:
    other = Old("local-square", tmp_path / "other")
    before = sorted(spilled.snapshots.names())
    with pytest.raises(CheckpointError, match="belongs to another query"):
        upgrade_from_2(spilled.root, other.query)
    assert sorted(spilled.snapshots.names()) == before


def test_rows_that_had_cooled_are_of_the_live_generation(tmp_path: Path) -> None:
    old = Old("local-spilled", tmp_path)
    replayed = _old_segments(old)
    manifest = old.upgraded()
    cooled = {s for s in manifest.segments.values() if not s.active and s.generation == LIVE}
    assert cooled, "the golden has some"
    for segment in manifest.segments.values():
        if not segment.active:
            for group in expand_ranges(segment.groups):
                was = replayed[segment.file, group]
                assert (segment.generation == LIVE) is (was["generation"] == was["closed"])
    rows = sum(segment.live_rows for segment in manifest.segments.values())
    assert rows == sum(entry["rows"] for entry in replayed.values())


def _old_segments(old: Old) -> dict[tuple[str, int], dict[str, int]]:
    """By file and group: its rows, the generation it was in, and how many its group had closed; replayed by hand."""
    files: dict[str, dict[str, Any]] = {}
    held: dict[tuple[str, int], dict[str, int]] = {}
    closed: dict[int, int] = {}
    states: set[str] = set()
    for path in sorted(Path(old.versions.path()).iterdir()):
        for update in json.loads(path.read_text())["updates"]:
            groups = [g for low, high in update.get("groups", []) for g in range(low, high)]
            match update["update"]:
                case "AddSegment":
                    entry = update["segment"]
                    files[entry["id"]] = entry
                    numbers = [g for low, high in entry["born"] for g in range(low, high)]
                    for group, rows in zip(numbers, entry["group_rows"], strict=True):
                        number = entry["generation"] if entry["tier"] == "cold" else -1
                        held[entry["id"], group] = {"rows": rows, "generation": number, "closed": 0}
                case "ReleaseGroups":
                    for group in groups:
                        held.pop((update["segment"].split("~")[0], group), None)
                case "CloseGroups":
                    states.update(update["states"])
                    for (_, group), entry in held.items():
                        if group in groups and entry["generation"] == -1:
                            entry["generation"] = closed.get(group, 0)
                    closed.update({group: closed.get(group, 0) + 1 for group in groups})
                case "CoolGroups":
                    for group in groups:
                        held[update["segment"], group]["generation"] = closed.get(group, 0)
    assert states == {entry["state"] for entry in files.values()}, "one operator, for this is simple"
    for (_, group), entry in held.items():
        entry["closed"] = closed.get(group, 0)
    return held


def test_generations_go_on_with_numbers_that_were_not_given(spilled: Old) -> None:
    manifest = spilled.upgraded()
    plan = lay_out_spec(spilled.query, manifest.answering.spec)
    for node in plan.operators.values():
        used = {number for state in node.states for number in manifest.segments.cold(state)}
        assert all(number >= 0 or number == LIVE for number in used)
    assert any(ledger.owing.any() for ledger in Ledgers(plan).at(manifest).values())


def test_operators_are_known_by_what_they_join(spilled: Old) -> None:
    manifest = spilled.upgraded()
    plan = lay_out_spec(spilled.query, manifest.answering.spec)
    names = {label: plan.labels[label] for label in plan.labels}
    decided = [entry for entry in manifest.decisions if entry["decision"] in ("SpillGroups", "MergeGroup")]
    named = {name for entry in decided for name, _ in entry.get("groups", [[entry.get("operator"), 0]])}
    assert named == set(names.values())
    assert plan.spec.lineage, "rows of this checkpoint carry it"
    assert set(manifest.figures) == set(names.values())


def test_files_that_were_read_are_never_too_old(spilled: Old) -> None:
    for progress in spilled.upgraded().streams.values():
        assert progress.files
        assert all(time > 1 << 60 for _, time in progress.files)


def test_a_round_gets_an_id_that_no_batch_had(tmp_path: Path) -> None:
    manifest = Old("local-round", tmp_path).upgraded()
    assert manifest.batch is not None and manifest.batch.round
    (delivery,) = manifest.undelivered
    assert (delivery.id, delivery.batch, delivery.round) == (manifest.batch.number + 1, manifest.batch.number, 1)
    assert manifest.next_delivery == manifest.batch.number + 2


def test_the_routes_are_those_whose_states_are_there(tmp_path: Path) -> None:
    """The text of the plan says (A B C D); its hops were chosen by statistics that are gone."""
    old = Old("local-square", tmp_path)
    manifest = old.upgraded()
    plan = lay_out_spec(old.query, manifest.answering.spec)
    assert {segment.state for segment in manifest.segments.values()} == set(plan.states)


def test_an_input_that_has_no_rows_yet_may_have_any_state(tmp_path: Path) -> None:
    old = Old("local-square", tmp_path)
    for path in Path(old.versions.path()).iterdir():
        content = json.loads(path.read_text())
        content["updates"] = [u for u in content["updates"] if not _state_of(u).startswith("A@")]
        path.write_text(json.dumps(content))
    manifest = old.upgraded()
    plan = lay_out_spec(old.query, manifest.answering.spec)
    held = {segment.state for segment in manifest.segments.values()}
    assert {plan.states[name].aliases for name in plan.states.keys() - held} == {("A",)}


def _state_of(update: dict[str, Any]) -> str:
    return str(update["segment"]["state"]) if update["update"] == "AddSegment" else ""


def test_states_that_no_routes_have_are_refused(tmp_path: Path) -> None:
    old = Old("local-square", tmp_path)
    content = json.loads(old.file(old.newest).read_text())
    added = next(update for update in content["updates"] if update["update"] == "AddSegment")
    old.add_version({**added, "segment": {**added["segment"], "id": "other", "state": "A@A.k#another"}})
    with pytest.raises(CheckpointError, match="holds the states of more than one plan"):
        old.upgraded()


def test_another_routing_is_another_number_of_slots(spilled: Old) -> None:
    spilled.add_version({"update": "SetRouting", "slots": 3, "owners": [0, 0, 1, 1, 2, 2]})
    placement = spilled.upgraded().placement
    assert (placement.slots, placement.groups, placement.owners) == (3, 6, {})


def test_a_run_that_has_read_nothing(tmp_path: Path) -> None:
    old = Old("local-windows", tmp_path)
    for number in table_numbers(old.versions):
        old.file(number).unlink()
    old.versions.put_if_absent(f"{1:020d}.json", b'{"format": 2, "version": 1, "batch": -1, "updates": []}')
    manifest = old.upgraded()
    assert (manifest.version, manifest.batch, manifest.undelivered, manifest.next_delivery) == (2, None, (), 0)


@pytest.mark.parametrize("content", ['{"format": 2}', '{"format": 2, "updates": [{"update": "Unheard"}]}', "[", "{}"])
def test_a_corrupt_version_is_named(content: str, spilled: Old) -> None:
    number = spilled.newest
    spilled.file(number).write_text(content)
    with pytest.raises(ResourceError, match=f'manifest file "{number:020d}.json" is corrupt'):
        spilled.upgraded()


def test_a_segment_that_nobody_knows_is_corruption(spilled: Old) -> None:
    spilled.add_version({"update": "ReleaseGroups", "segment": SegmentId("none"), "groups": [[0, 1]]})
    with pytest.raises(ResourceError, match="is corrupt"):
        spilled.upgraded()
