"""Riders, free bikes and stations that are near each other: a join of three streams by distance, with no equality.

All report where they are, once a second or so. A rider is offered a bike that is less than 150 m away, if there is a
station less than 200 m from that bike. No hash serves such a join; a row is compared with rows whose x is near enough,
in sorted order, which the engine reads from the predicates itself.

The answer is computed a second time, plainly, from all rows at once, and the two are compared.

    python examples/near_in_space/run.py [--seconds 30] [--riders 40] [--bikes 60] [--stations 20] [--slots 2]
"""

import argparse
import sys
import time
from collections import Counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import watersmeet as wm

QUERY = """
SELECT r.id AS rider, b.id AS bike, s.id AS station, r.ts AS asked
FROM riders r [RANGE 2 SECONDS], bikes b [RANGE 4 SECONDS], stations s [RANGE 10 SECONDS]
WHERE POWER(r.x - b.x, 2) + POWER(r.y - b.y, 2) < 150 * 150
  AND POWER(b.x - s.x, 2) + POWER(b.y - s.y, 2) < 200 * 200
"""
WINDOWS = {"riders": 2_000_000, "bikes": 4_000_000, "stations": 10_000_000}
CITY = 5_000.0  # metres, each way
SPEED = {"riders": 1.5, "bikes": 5.0, "stations": 0.0}  # metres a second

Points = npt.NDArray[np.float64]


def draw(name: str, count: int, seconds: int, seed: int) -> list[pa.RecordBatch]:
    """A batch for each second, in which everybody reports a place once, at some time of it."""
    random = np.random.default_rng([seed, count])
    places = random.uniform(0, CITY, (count, 2))
    batches = []
    for second in range(seconds):
        places = places + random.normal(0, 1, (count, 2)) * SPEED[name]
        times = second * 1_000_000 + random.integers(0, 1_000_000, count)
        order = np.argsort(times)
        columns = {"id": order, "x": places[order, 0], "y": places[order, 1], "ts": times[order]}
        batches.append(pa.record_batch(columns))
    return batches


def plainly(streams: dict[str, list[pa.RecordBatch]]) -> Counter[tuple[int, ...]]:
    """The same answer from all rows at once: every rider with every bike, and what is found with every station."""
    tables = {name: pa.Table.from_batches(batches) for name, batches in streams.items()}
    places = {name: np.column_stack([rows["x"], rows["y"]]) for name, rows in tables.items()}
    times = {name: rows["ts"].to_numpy() for name, rows in tables.items()}
    ids = {name: rows["id"].to_numpy() for name, rows in tables.items()}
    found: Counter[tuple[int, ...]] = Counter()
    for r, place in enumerate(places["riders"]):
        for b in np.flatnonzero(apart(places["bikes"], place) < 150 * 150):
            for s in np.flatnonzero(apart(places["stations"], places["bikes"][b]) < 200 * 200):
                of = {"riders": times["riders"][r], "bikes": times["bikes"][b], "stations": times["stations"][s]}
                if all(max(of.values()) - of[name] < WINDOWS[name] for name in of):
                    found[int(ids["riders"][r]), int(ids["bikes"][b]), int(ids["stations"][s]), int(of["riders"])] += 1
    return found


def apart(points: Points, place: Points) -> Points:
    """How far points are from a place, squared."""
    return np.asarray(((points - place) ** 2).sum(axis=1))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="riders, bikes and stations that are near each other")
    parser.add_argument("--seconds", type=int, default=30, help="of reports")
    parser.add_argument("--riders", type=int, default=40)
    parser.add_argument("--bikes", type=int, default=60)
    parser.add_argument("--stations", type=int, default=20)
    parser.add_argument("--slots", type=int, default=2)
    args = parser.parse_args(arguments)
    counts = {"riders": args.riders, "bikes": args.bikes, "stations": args.stations}
    streams = {name: draw(name, count, args.seconds, seed) for seed, (name, count) in enumerate(counts.items())}
    began = time.perf_counter()
    answer = wm.sql(QUERY, streams=streams).run(slots=args.slots)
    seconds = time.perf_counter() - began
    rows = sum(batch.num_rows for batches in streams.values() for batch in batches)
    print(f"{rows:,} reports, {answer.num_rows:,} offers, {seconds:.1f} seconds")
    for offer in answer.slice(0, 3).to_pylist():
        print(f"  rider {offer['rider']} may take bike {offer['bike']} to station {offer['station']}")
    found = Counter(zip(*(column.to_pylist() for column in answer.columns), strict=True))
    right = found == plainly(streams)
    print("a plain computation gives the same" if right else "A PLAIN COMPUTATION GIVES ANOTHER ANSWER")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
