"""`watersmeet state`: what it says of a small checkpoint made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from watersmeet.cli.main import main
from watersmeet.model.ids import DeliveryId, SegmentId, StateName
from watersmeet.model.placement import Placement
from watersmeet.model.segments import Segment
from watersmeet.plan.spec import JoinSpec, PlanSpec
from watersmeet.plan.tree import Join, Leaf
from watersmeet.state.files import Folder
from watersmeet.state.learned import Learned, Lesson, Trial
from watersmeet.state.manifest import FORMAT, BatchRecord, Manifest, Track
from watersmeet.state.query_identity import QueryIdentity, StreamIdentity
from watersmeet.state.sealed import digest_of, seal, unseal
from watersmeet.state.segment_table import SegmentTable
from watersmeet.state.table import FileTable, read_versions
from watersmeet.state.updates import AddSegment, AdvanceStream, FinishBatch, Learn, MarkDelivered

QUERY = "SELECT A.v\nFROM A, B WHERE A.k = B.k"
NEVER = (1 << 63) - 1


def make_segment(number: int, max_expiry: int) -> Segment:
    return Segment(
        id=SegmentId(f"seg{number}"),
        state=StateName("A@A.k#12345678"),
        rows=1000,
        bytes=2048,
        crc32=0,
        groups=((0, 3), (5, 6)),
        written=((0, 3), (5, 6)),
        min_expiry_us=1_000_000,
        max_expiry_us=max_expiry,
        min_time_us=0,
        batch=number,
    )


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Two batches: versions 0, 1 and 2."""
    identity = QueryIdentity(QUERY, {"A": StreamIdentity((("k", pa.int64()), ("ts", pa.int64())), "ts", 0)}, "digest")
    spec = PlanSpec(Join((Leaf("A"), Leaf("B"))), (JoinSpec(((1,), (0,))),))
    first = Manifest(0, identity, (Track(spec, "asked for"),), Placement(2, 6), SegmentTable.of())
    table = FileTable.create(Folder(str(tmp_path / "ck" / "state")), first)
    for number in range(2):
        table.commit(
            [],
            [
                AddSegment(make_segment(number, 2_000_000 if number else NEVER)),
                AdvanceStream("A", newest_us=1_500_000 + number, rows=1000, late=3),
                FinishBatch(
                    BatchRecord(number, rows_in=1000, rows_out=70, rows_late=3), results=(f"r{number}.parquet",)
                ),
                MarkDelivered((DeliveryId(number - 1),)),
            ],
        )
    return str(tmp_path / "ck")


def test_ls_lists_versions_newest_last(checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "ls", checkpoint]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    rows = [line for line in lines if line[0] in ("0", "1", "2")]
    assert rows == [
        ["0", "-", "-", "0", "0", "0", "B", "0", "0", "0", "yes"],
        ["1", "-", "0", "1,000", "1", "2.0", "KB", "1,000", "70", "3", "yes"],
        ["2", "-", "1", "2,000", "2", "4.0", "KB", "2,000", "140", "6"],
    ]
    assert "3 versions can be read; the newest, 2, is the state after batch 1: 2,000 rows in" in " ".join(lines[-1])


def test_show_tells_everything_of_the_newest(checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "show", checkpoint]) == 0
    out = capsys.readouterr().out
    squeezed = [" ".join(line.split()) for line in out.splitlines()]
    assert squeezed[0] == "version 2, after batch 1"
    assert "plan (A B)" in squeezed
    assert "  FROM A, B WHERE A.k = B.k" in out
    assert "all 0 3 0-2" in squeezed
    assert "all 1 3 3-5" in squeezed
    assert "A 2,000 6 0 1970-01-01 00:00:01.500001 0 k int64, ts int64; time ts; no lateness" in squeezed
    assert "A@A.k#12345678 2 2,000 4.0 KB 0 -" in squeezed
    start = "A@A.k#12345678 1,000 2.0 KB 0-2, 5 live active 1970-01-01 00:00:01"
    assert f"seg0 {start} never" in squeezed
    assert f"seg1 {start} 1970-01-01 00:00:02" in squeezed
    assert "last batch 1: 1,000 rows in, 70 out, 3 late" in squeezed
    assert "not known to be delivered: batch 1 (1 files, id 1)" in squeezed
    assert not [line for line in squeezed if "delivered: batch 0" in line]


def test_show_lists_what_changes_came_to(checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = Trial("plan", "(B A)", 1, {"cpu": 2.0, "batch_seconds": 0.1}, {"cpu": 1.0})
    slots = Trial("slots", "4 slots", 2, {"seconds": 16.0}, {"seconds": 7.0}, from_size=2, size=4)
    learned = Learned(trials=(slots,), lessons=(Lesson(plan, {"cpu": 1.9}, False, 3),))
    table = FileTable.open(Folder(str(Path(checkpoint) / "state")))
    table.commit([], [Learn(learned)])
    assert main(["state", "show", checkpoint]) == 0
    squeezed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "what changes came to (the last of each kind)" in squeezed
    assert "plan (B A) 1 cpu 2 cpu 1 cpu 1.9 no 3" in squeezed
    assert "slots 4 slots 2 seconds 16 seconds 7 not known yet" in squeezed


def test_show_an_older_version(checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "show", checkpoint, "--version", "0"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("version 0, after no batch yet")
    assert out.count("  none") == 3


def test_json_is_the_manifest(checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "show", checkpoint, "--json", "--version", "1"]) == 0
    manifest = Manifest.from_json(json.loads(capsys.readouterr().out))
    assert (manifest.version, manifest.state_rows, manifest.query.text) == (1, 1000, QUERY)
    assert [delivery.results for delivery in manifest.undelivered] == [("r0.parquet",)]


def test_an_earlier_format_is_not_shown(checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What its states were is known only to a run of its query."""
    snapshot = Path(checkpoint) / "state" / "snapshots" / f"{0:020d}.json"
    content, _ = unseal(snapshot.read_bytes())
    snapshot.write_bytes(seal({**content, "format": FORMAT - 1}))
    assert main(["state", "show", checkpoint]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: the checkpoint was written by an earlier version of watersmeet\n")
    assert f"detail: It has format {FORMAT - 1}; this version writes format {FORMAT}." in err
    assert "hint: Run its job with this version" in err


@pytest.mark.parametrize("verb", ["ls", "show"])
def test_no_checkpoint(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", verb, str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith(f'error: there is no checkpoint "{tmp_path / "none"}"\n')
    assert main(["state", verb, str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f'error: folder "{tmp_path}" holds no state\n')


def test_a_version_that_is_not_there(checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "show", checkpoint, "--version", "9"]) == 2
    assert (
        "error: version 9 cannot be read\ndetail: The versions that can be read are 0 to 2." in capsys.readouterr().err
    )


def test_a_corrupt_manifest_is_a_fault(checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(checkpoint) / "state" / "versions" / f"{1:020d}.json").write_text("{")
    assert main(["state", "ls", checkpoint]) == 1
    assert "is corrupt" in capsys.readouterr().err


def test_a_missing_version_is_a_fault(checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(checkpoint) / "state" / "versions" / f"{1:020d}.json").unlink()
    assert main(["state", "ls", checkpoint]) == 1
    assert "error: version 1 of the state is missing" in capsys.readouterr().err


def test_a_snapshot_that_outlived_its_versions_is_passed_over(checkpoint: str) -> None:
    root = Path(checkpoint) / "state"
    manifest = list(read_versions(Folder(str(root))))[1]
    version = root / "versions" / f"{1:020d}.json"
    content = {**manifest.to_json(), "digest": digest_of(version.read_bytes())}
    (root / "snapshots" / f"{1:020d}.json").write_bytes(seal(content))
    version.unlink()
    assert [entry.version for entry in read_versions(Folder(str(root)))] == [1, 2]
