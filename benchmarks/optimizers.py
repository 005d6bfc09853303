"""How often each strategy finds a plan that fits, and how long it takes: the comparison of [Zhu06, ch. 8.2].

For each number of streams from 3 to 20, 100 random settings: rates uniform in 1..100 rows per unit of time,
selectivities uniform in 0..1, window 1, joins at random (a random spanning tree, and each further pair with a
probability that is itself drawn for the setting, so that chains, stars, cycles and cliques all occur).

The dissertation does not say which limits on CPU and memory it set. Two ways are measured here:

- *machine*: one machine for all settings of a size, that about half of them fit on: the median of the smaller CPU of
  mjoin and bjtree, and twice the median of the mjoin's memory (the least there can be).
- *contested*: limits drawn anew for each setting, between its own extremes: CPU between the cheapest plan and the
  mjoin, memory between the mjoin and the cheapest plan. Neither extreme fits, so that a plan in between must be
  found; there may be none. The extremes are those of `dominating`, exact up to 9 streams.

Times are CPU time of one optimisation, mean and worst, so that other work on the machine counts little. Prints a table
and draws it.

    python -m benchmarks.optimizers [--settings N] [--most N] [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import argparse
import gc
import itertools
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

if __package__ in (None, ""):  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from watersmeet.optimize import Limits, PlannedTree, bjtree_init, dominating, exhaustive, mjoin_init
from watersmeet.plan import JoinGraph

LEAST_STREAMS = 3
EXHAUSTIVE_UP_TO = 8  # where the dissertation's ends too
STRATEGIES: dict[str, Callable[[JoinGraph, Limits], PlannedTree]] = {
    "exhaustive": exhaustive,
    "mjoin-init": mjoin_init,
    "bjtree-init": bjtree_init,
}
COLOURS = {"exhaustive": "#444444", "mjoin-init": "#0072b2", "bjtree-init": "#d55e00"}


@dataclass
class Tally:
    """What one strategy did with the settings of one size under one kind of limits."""

    qualified: int = 0
    seconds: list[float] = field(default_factory=list)


def draw_graph(count: int, source: random.Random) -> JoinGraph:
    names = [f"S{place}" for place in range(count)]
    edges = {(names[source.randrange(place)], names[place]): source.random() for place in range(1, count)}
    density = source.random()
    for pair in itertools.combinations(names, 2):
        if pair not in edges and source.random() < density:
            edges[pair] = source.random()
    return JoinGraph({name: source.uniform(1, 100) for name in names}, edges, 1)


def machine_limits(graphs: list[JoinGraph]) -> list[Limits]:
    mjoins = [mjoin_init(graph) for graph in graphs]
    cheaper = [min(mjoin.cost.cpu, bjtree_init(graph).cost.cpu) for graph, mjoin in zip(graphs, mjoins, strict=True)]
    limits = Limits(statistics.median(cheaper), 2 * statistics.median(plan.cost.memory for plan in mjoins))
    return [limits] * len(graphs)


def contested_limits(graphs: list[JoinGraph], source: random.Random) -> list[Limits]:
    def draw(graph: JoinGraph) -> Limits:
        plans = dominating(graph)
        first, last = plans[0].cost, plans[-1].cost
        return Limits(source.uniform(first.cpu, last.cpu), source.uniform(last.memory, first.memory))

    return [draw(graph) for graph in graphs]


def measure(graphs: list[JoinGraph], limits: list[Limits]) -> dict[str, Tally]:
    tallies = {}
    for name, strategy in STRATEGIES.items():
        if name == "exhaustive" and len(graphs[0].streams) > EXHAUSTIVE_UP_TO:
            continue
        tally = tallies[name] = Tally()
        gc.collect()
        gc.disable()  # as timeit does: one collection, 50 ms with all that is alive here, is no part of an optimisation
        for graph, limit in zip(graphs, limits, strict=True):
            begin = time.process_time()
            plan = strategy(graph, limit)
            tally.seconds.append(time.process_time() - begin)
            tally.qualified += plan.qualifies
        gc.enable()
    return tallies


Results = dict[str, dict[int, dict[str, Tally]]]  # kind of limits -> streams -> strategy


def run(settings: int, most: int, seed: int) -> Results:
    results: Results = {"machine": {}, "contested": {}}
    print_head()
    for count in range(LEAST_STREAMS, most + 1):
        source = random.Random(seed * 1000 + count)
        graphs = [draw_graph(count, source) for _ in range(settings)]
        results["machine"][count] = measure(graphs, machine_limits(graphs))
        results["contested"][count] = measure(graphs, contested_limits(graphs, source))
        print_row(count, settings, results)
    return results


def print_head() -> None:
    print("Share of settings with a qualified plan in %, and CPU time of an optimisation in ms (mean / worst)")
    print(f"{'':>7} {'machine':^21} {'contested':^21} {'time':^41}")
    names = "exhst  mjoin bjtree"
    print(f"{'streams':>7} {names:>21} {names:>21} {'exhaustive':>13} {'mjoin-init':>13} {'bjtree-init':>13}")


def print_row(count: int, settings: int, results: Results) -> None:
    cells = [f"{count:>7}"]
    for kind in ("machine", "contested"):
        tallies = results[kind][count]
        shares = [f"{100 * tallies[name].qualified / settings:.0f}" if name in tallies else "-" for name in STRATEGIES]
        cells.append("".join(f"{share:>7}" for share in shares))
    for name in STRATEGIES:
        seconds = seconds_of(results, count, name)
        text = f"{1000 * statistics.mean(seconds):.1f} / {1000 * max(seconds):.0f}" if seconds else "-"
        cells.append(f"{text:>13}")
    print(" ".join(cells), flush=True)


def seconds_of(results: Results, count: int, name: str) -> list[float]:
    return [s for by_count in results.values() if name in by_count[count] for s in by_count[count][name].seconds]


def plot(results: Results, settings: int, path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.6), layout="constrained")
    titles = {"machine": "one machine for all settings", "contested": "limits between the extremes of each setting"}
    for axis, (kind, title) in zip(axes, titles.items(), strict=False):
        for name, colour in COLOURS.items():
            points = [(n, 100 * t[name].qualified / settings) for n, t in results[kind].items() if name in t]
            # Exhaustive search as open rings, so that the lines that agree with it stay visible.
            rings = {"markersize": 10, "fillstyle": "none", "linewidth": 0}
            style = rings if name == "exhaustive" else {"markersize": 4}
            axis.plot(*zip(*points, strict=True), color=colour, label=name, marker="o", **style)
        axis.set(title=title, xlabel="streams", ylabel="settings with a qualified plan, %", ylim=(0, 104))
    for name, colour in COLOURS.items():
        counts = [n for n, tallies in results["machine"].items() if name in tallies]
        means = [1000 * statistics.mean(seconds_of(results, n, name)) for n in counts]
        worst = [1000 * max(seconds_of(results, n, name)) for n in counts]
        axes[2].plot(counts, means, color=colour, marker="o", markersize=4, label=f"{name}, mean")
        axes[2].plot(counts, worst, color=colour, linestyle=":", label=f"{name}, worst")
    axes[2].axhline(100, color="#999999", linewidth=0.8)
    axes[2].set(title="CPU time of an optimisation", xlabel="streams", ylabel="ms", yscale="log")
    for axis in axes:
        axis.grid(alpha=0.25)
        axis.set_xticks(range(LEAST_STREAMS, max(results["machine"]) + 1, 1 if max(results["machine"]) < 12 else 2))
        axis.legend(frameon=False, fontsize=8)
    figure.suptitle(f"{settings} random settings for each number of streams")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--settings", type=int, default=100, help="random settings for each number of streams")
    parser.add_argument("--most", type=int, default=20, help="the largest number of streams")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("bench-data/optimizers"), help="folder for the picture")
    options = parser.parse_args()
    results = run(options.settings, options.most, options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "optimizers.png"
    plot(results, options.settings, path)
    print(f"picture: {path}")


if __name__ == "__main__":
    main()
