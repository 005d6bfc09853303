"""Results on their way out: written aside, delivered by a move, and delivered again without harm."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.model.file_sums import sum_of
from watersmeet.model.ids import DeliveryId
from watersmeet.runtime.outputs import Outputs
from watersmeet.runtime.results import CountedResults, ParquetResults, write_late
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Delivery
from watersmeet.state.output_names import Stamp

SCHEMA = pa.schema([("a", pa.int64())])


def stamp(batch: int) -> Stamp:
    return Stamp(batch, 0, "9f86d081884c", 1)


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=SCHEMA)


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    result = Outputs.of("parquet", str(tmp_path / "out"), str(tmp_path / "late")).of_checkpoint("9f86d081884c", 1)
    for folder in result.waiting_folders:
        folder.make()
    return result


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_a_delivery_may_be_repeated_and_cut_short(outputs: Outputs, tmp_path: Path) -> None:
    names = [name for slot in range(3) for name in outputs.writer.write([batch(slot)], SCHEMA, stamp(4), slot)[0]]
    assert outputs.late_waiting is not None
    (late,) = write_late(outputs.late_waiting, [batch(9)], "A", stamp(4))
    record = Delivery(DeliveryId(4), 4, 0, tuple(names), (late,))
    assert outputs.waiting is not None
    outputs.waiting.move_out([names[1]], Folder(str(tmp_path / "out")))  # as far as an earlier delivery came
    for _ in range(3):
        outputs.deliver(record)
        assert files(tmp_path / "out") == sorted(names)
        assert files(tmp_path / "late") == [late]
    assert sorted(pq.read_table(tmp_path / "out").column("a").to_pylist()) == [0, 1, 2]
    assert [list(Path(folder.path()).iterdir()) for folder in outputs.waiting_folders] == [[], []]


def test_what_waits_is_not_read(outputs: Outputs, tmp_path: Path) -> None:
    names = list(outputs.writer.write([batch(1)], SCHEMA, stamp(0), 0)[0])
    assert pq.ParquetDataset(tmp_path / "out").files == []
    outputs.deliver(Delivery(DeliveryId(0), 0, 0, tuple(names)))
    assert len(pq.ParquetDataset(tmp_path / "out").files) == 1


def test_what_readers_have_taken_away_is_not_missed(outputs: Outputs, tmp_path: Path) -> None:
    """A delivery is repeated after a restart, by when delivered files may be anywhere."""
    names = list(outputs.writer.write([batch(1)], SCHEMA, stamp(0), 0)[0])
    delivery = Delivery(DeliveryId(0), 0, 0, tuple(names))
    outputs.deliver(delivery)
    (tmp_path / "out" / names[0]).unlink()
    outputs.deliver(delivery)
    assert files(tmp_path / "out") == []


def test_owners_have_waiting_folders_of_their_own(tmp_path: Path) -> None:
    one, two = (Outputs.of("parquet", str(tmp_path), None).of_checkpoint(owner) for owner in ("one", "two"))
    assert one.waiting != two.waiting


def test_nothing_to_deliver() -> None:
    outputs = Outputs.of("noop", None, None)
    assert outputs.waiting_folders == ()
    assert outputs.writer.write([batch(1, 2)], SCHEMA, stamp(0), 0) == ({}, 2)
    outputs.deliver(Delivery(DeliveryId(0), 0, 0))


def test_results_left_to_somebody_else(tmp_path: Path) -> None:
    waiting = Folder(str(tmp_path / "results"))
    outputs = Outputs.waiting_only(waiting, None)
    waiting.make()
    names = list(outputs.writer.write([batch(1)], SCHEMA, stamp(0), 0)[0])
    outputs.deliver(Delivery(DeliveryId(0), 0, 0, tuple(names)))
    assert os.listdir(tmp_path / "results") == names


def test_only_the_first_file_may_be_empty(tmp_path: Path) -> None:
    writer = ParquetResults(Folder(str(tmp_path)))
    assert writer.write([], SCHEMA, stamp(0), 1) == ({}, 0)
    assert writer.write([], SCHEMA, stamp(1), 0) == ({}, 0)
    (name,), rows = writer.write([], SCHEMA, stamp(0), 0)
    assert rows == 0
    assert pq.read_schema(tmp_path / name) == SCHEMA


def test_a_file_has_all_batches_of_a_task(tmp_path: Path) -> None:
    files, rows = ParquetResults(Folder(str(tmp_path))).write(iter([batch(1), batch(2, 3)]), SCHEMA, stamp(12), 3)
    assert rows == 3
    ((name, found),) = files.items()
    assert name.startswith("part-00000012-0003-")
    assert pq.read_table(tmp_path / name).column("a").to_pylist() == [1, 2, 3]
    assert found == sum_of((tmp_path / name).read_bytes())


def test_an_error_in_the_rows_leaves_no_file(tmp_path: Path) -> None:
    def broken():
        yield batch(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ParquetResults(Folder(str(tmp_path))).write(broken(), SCHEMA, stamp(0), 0)
    assert os.listdir(tmp_path) == []


def test_counted_results() -> None:
    assert CountedResults().write([batch(1), batch(2, 3)], SCHEMA, stamp(0), 0) == ({}, 3)
