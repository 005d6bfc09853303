"""Was: the files of a delivery went before it was written down that it had been delivered.

A run that died in between found the delivery still listed, called the function again, and had no rows to give it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.lang.binder import bind
from watersmeet.model.streams import Stream
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource
from watersmeet.runtime.opening import open_run
from watersmeet.runtime.outputs import Outputs
from watersmeet.settings.run import RunSettings
from watersmeet.state.files import Folder
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.manifest import Delivery

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
QUERY = "SELECT A.ts AS a, B.ts AS b FROM A, B WHERE A.k = B.k"


class Sink:
    """Takes rows from where they wait, as `foreachBatch` is given them."""

    def __init__(self, waiting: Folder) -> None:
        self._waiting = waiting
        self.rows: dict[int, int] = {}

    def __call__(self, delivery: Delivery) -> None:
        self.rows[delivery.id] = sum(pq.read_table(self._waiting.path(name)).num_rows for name in delivery.results)


def run_batches(home: Path, batches: Sequence[int], to_the_end: bool) -> dict[int, int]:
    """Join rows of these times; the rows of each delivery. A run that does not come to its end dies after a batch."""
    streams = {name: Stream(name, SCHEMA, "ts") for name in "AB"}
    query = bind(QUERY, streams)
    folders = CheckpointFolders(str(home))
    sink = Sink(folders.results)
    opened = open_run(query, RunSettings(), folders, Outputs.waiting_only(folders.results, None))
    run = LocalRun(opened.plan, opened.checkpoint, opened.outputs.writer, controller=opened.controller, deliver=sink)
    rows = [pa.record_batch({"k": [1] * 2, "ts": [time] * 2}, schema=SCHEMA) for time in batches]
    going = run.batches({name: RowsSource(stream, rows) for name, stream in streams.items()})
    for _ in batches:
        next(going)
    if to_the_end:
        assert list(going) == []
    run.close()
    return sink.rows


def test_a_run_that_died_gives_its_last_delivery_again(tmp_path: Path) -> None:
    assert run_batches(tmp_path, [1, 2, 3], to_the_end=False) == {0: 4, 1: 12, 2: 20}
    assert run_batches(tmp_path, [4], to_the_end=False) == {2: 20, 3: 28}
    assert run_batches(tmp_path, [5], to_the_end=True) == {3: 28, 4: 36}
    assert run_batches(tmp_path, [], to_the_end=True) == {}


@pytest.mark.parametrize("to_the_end, left", [(True, 0), (False, 1)])
def test_files_go_when_they_are_nobodys(to_the_end: bool, left: int, tmp_path: Path) -> None:
    run_batches(tmp_path, [1, 2, 3], to_the_end)
    assert len(list((tmp_path / "state" / "results").iterdir())) == left
