"""A run in memory, step by step, with rows given by hand: a name and a time for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pyarrow as pa

from strategies import counted
from watersmeet.lang.binder import bind
from watersmeet.model.placement import Placement
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.tree import choose_tree
from watersmeet.runtime.checkpoint import in_memory
from watersmeet.runtime.local.executor import MemoryResults
from watersmeet.runtime.local.run import LocalRun
from watersmeet.runtime.local.sources import RowsSource

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("z", pa.int64()), ("v", pa.string()), ("ts", pa.int64())])
SECOND = 1_000_000
ONE_KEY = "A.x = B.x AND B.x = C.x AND C.x = D.x"
CHAIN = "A.x = B.x AND B.y = C.y AND C.z = D.z"


class SmallRun:
    """A run in memory that rows are given to by hand."""

    def __init__(
        self,
        where: str,
        plan: str,
        streams: str = "ABCD",
        window: str | Mapping[str, str] = "",
        lateness: int = 0,
    ) -> None:
        self.streams = {
            name: Stream(name, SCHEMA, "ts", timedelta(seconds=lateness), time_unit="us") for name in streams
        }
        columns = ", ".join(f"{name}.v AS {name.lower()}" for name in streams)
        windows = dict.fromkeys(streams, window) if isinstance(window, str) else window
        froms = ", ".join(f"{name}{windows.get(name, '')}" for name in streams)
        self.query = bind(f"SELECT {columns} FROM {froms} WHERE {where}", self.streams)
        laid_out = lay_out(self.query, choose_tree(self.query, plan))
        self._results = MemoryResults()
        self.run = LocalRun(laid_out, in_memory(self.query, laid_out.spec, Placement(2, 4)), self._results)

    def batch(self, **rows: Mapping[str, float]) -> Counter[tuple[Any, ...]]:
        """`A={"a1": 3}` is a row a1 of A of second 3, all of whose keys are 1; the results."""
        pulled = {}
        for name, times in rows.items():
            found = [{"x": 1, "y": 1, "z": 1, "v": v, "ts": int(ts * SECOND)} for v, ts in times.items()]
            pulled[name] = RowsSource(self.streams[name], [pa.RecordBatch.from_pylist(found, schema=SCHEMA)]).pull(
                set()
            )
        self.run.driver.run_batch({name: batch for name, batch in pulled.items() if batch is not None})
        return self.results()

    def results(self) -> Counter[tuple[Any, ...]]:
        return counted(pa.Table.from_batches(self._results.pop(), schema=self.query.output_schema))

    def change(self, plan: str) -> Mapping[str, Any]:
        return self.run.driver.migrate(plan, "moving-state", "asked for by hand")

    def held(self, inputs: str) -> int:
        """The rows of a state."""
        segments = self.run.manifest.segments.values()
        return sum(segment.live_rows for segment in segments if segment.state.startswith(f"{inputs}@"))
