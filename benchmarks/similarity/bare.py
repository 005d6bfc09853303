"""The same join as a nested loop in numpy, with nothing round it: no Spark, no state on disk, no exactly-once.

For each batch and origin: new rows against the rows of the window, so many pairs in a pass, laid out as two arrays and
put to the predicate. What passes goes on to the third stream in the same way. It says how many pairs there were, how
long the loop took, and how much of that the predicate did. With two slots, two processes have half of the new rows
each. The answer is what the others are compared with.
"""

import json
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.contenders.progress import parser
from benchmarks.similarity.data import DIMENSIONS, SECOND, STREAMS, Vectors, alike, rows_of

Numbers = npt.NDArray[np.int64]
# Whom the rows of each stream meet, in this order: B is alike with A, and with C.
ROUTES = {"A": ("B", "C"), "B": ("A", "C"), "C": ("B", "A")}


@dataclass(frozen=True)
class Rows:
    ids: Numbers
    vectors: Vectors
    times: Numbers

    def __add__(self, other: "Rows") -> "Rows":
        pairs = zip((self.ids, self.vectors, self.times), (other.ids, other.vectors, other.times), strict=True)
        return Rows(*(np.concatenate(pair) for pair in pairs))

    def take(self, keep: Numbers | slice) -> "Rows":
        return Rows(self.ids[keep], self.vectors[keep], self.times[keep])


@dataclass
class Loop:
    pairs_at_once: int
    window_us: int
    pairs: int = 0
    predicate_seconds: float = 0.0
    cpu_seconds: float = 0.0
    found: list[Numbers] = field(default_factory=list)
    clock: Callable[[], float] = time.perf_counter
    room: list[Vectors] = field(default_factory=lambda: [np.empty((0, DIMENSIONS)), np.empty((0, DIMENSIONS))])

    def matches(self, vectors: Vectors, oldest: Numbers, newest: Numbers, met: Rows) -> tuple[Numbers, Numbers]:
        """Which of some vectors are alike with which rows, of those whose times are within their windows."""
        begins = np.searchsorted(met.times, newest - self.window_us, side="right")
        ends = np.searchsorted(met.times, oldest + self.window_us, side="left")
        first, second = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        counts = np.maximum(0, ends - begins)
        before = np.concatenate([[0], np.cumsum(counts)])
        low = 0
        while low < len(counts):
            high = max(low + 1, int(np.searchsorted(before, before[low] + self.pairs_at_once, side="right")) - 1)
            part = np.repeat(np.arange(low, high), counts[low:high])
            row = np.arange(len(part)) + np.repeat(
                begins[low:high] - (before[low:high] - before[low]), counts[low:high]
            )
            left, right = self._laid_out(0, vectors, part), self._laid_out(1, met.vectors, row)
            began = self.clock()
            mask = alike(left, right)
            self.predicate_seconds += self.clock() - began
            keep = np.flatnonzero(mask)
            first.append(part[keep])
            second.append(row[keep])
            self.pairs += len(part)
            low = high
        return np.concatenate(first), np.concatenate(second)

    def _laid_out(self, side: int, vectors: Vectors, rows: Numbers) -> Vectors:
        """Rows of vectors, always in the same memory: what is new for each pass would be mapped in page by page."""
        if len(self.room[side]) < len(rows):
            self.room[side] = np.empty((len(rows), DIMENSIONS))
        return np.take(vectors, rows, axis=0, out=self.room[side][: len(rows)], mode="clip")

    def visit(self, origin: str, new: Rows, kept: dict[str, Rows]) -> None:
        near, far = ROUTES[origin]
        one, two = self.matches(new.vectors, new.times, new.times, kept[near])
        oldest = np.minimum(new.times[one], kept[near].times[two])
        newest = np.maximum(new.times[one], kept[near].times[two])
        compared = new.vectors[one] if origin == "B" else kept[near].vectors[two]
        part, three = self.matches(compared, oldest, newest, kept[far])
        ids = {origin: new.ids[one[part]], near: kept[near].ids[two[part]], far: kept[far].ids[three]}
        self.found.append(np.column_stack([ids[stream] for stream in STREAMS]))


def run(data: Path, files: int, at_once: int, window: int, share: tuple[int, int]) -> tuple[Loop, float]:
    """The loop over the first files, with its share of the new rows, and the seconds that it took."""
    batches = [{stream: load(data / stream, file) for stream in STREAMS} for file in range(files)]
    loop = Loop(at_once, window * SECOND)
    kept = {stream: batches[0][stream].take(slice(0, 0)) for stream in STREAMS}
    began, cpu = time.perf_counter(), time.process_time()
    for batch in batches:
        for origin in STREAMS:  # those before have their new rows among the others already
            new = batch[origin]
            loop.visit(origin, new.take(np.arange(share[0], len(new.ids), share[1])), kept)
            kept[origin] = kept[origin] + new
        for stream in STREAMS:
            alive = kept[stream].times > max(each.times[-1] for each in kept.values()) - loop.window_us
            kept[stream] = kept[stream].take(np.flatnonzero(alive))
    loop.cpu_seconds = time.process_time() - cpu
    return loop, time.perf_counter() - began


def load(folder: Path, file: int) -> Rows:
    table = pq.read_table(sorted(folder.iterdir())[file]).combine_chunks()
    ids, vectors, times = (table[name].combine_chunks() for name in ("id", "v", "ts"))
    return Rows(ids.to_numpy(), rows_of(vectors), times.to_numpy())


def main() -> None:
    options = parser()
    options.add_argument("--slots", type=int, default=1)
    options.add_argument("--window", type=int, required=True)
    options.add_argument("--at-once", type=int, required=True)
    args = options.parse_args()
    files = len(list((args.data / "A").iterdir()))
    work = [(args.data, files, args.at_once, args.window, (slot, args.slots)) for slot in range(args.slots)]
    run(*work[0][:1], min(2, files), *work[0][2:])
    if args.slots == 1:
        done = [run(*work[0])]
    else:
        with multiprocessing.get_context("fork").Pool(args.slots) as pool:
            done = pool.starmap(run, work)
    answer = np.concatenate([piece for loop, _ in done for piece in loop.found])
    pq.write_table(pa.table(dict(zip("abc", answer.T, strict=True))), args.out / "answer.parquet")
    end = {
        "event": "end",
        "seconds": max(seconds for _, seconds in done),
        "cpu_seconds": sum(loop.cpu_seconds for loop, _ in done),
        "pairs": sum(loop.pairs for loop, _ in done),
        "predicate_seconds": sum(loop.predicate_seconds for loop, _ in done) / args.slots,
        "rows_out": len(answer),
    }
    print(json.dumps(end), flush=True)


if __name__ == "__main__":
    main()
