"""A chain of four streams with a key for each link and large intermediate results: Watersmeet and Spark's own joins.

Query and data: benchmarks.chain_data. A row meets `--fanout` rows at each of the first two links and `--matches` at
the last, so AB and ABC are many times the inputs and the answer is small, or moderate with `--matches 1`. Whoever joins
two at a time in the order of the text keeps AB and ABC. The contenders:

- spark-memory, spark-rocksdb: Spark's stream-stream joins, ((A B) C) D as the text has it;
- left-deep: Watersmeet with the same shape of plan, so with the same intermediate states;
- mjoin: Watersmeet's routed join, which keeps none; routes follow the text;
- mjoin-init: the same with routes chosen from statistics (rates and selectivities);
- auto: the plan that Watersmeet chooses with these statistics; a tree with small states where there is one;
- spark-by-hand: Spark's joins, in memory, with the text rewritten by hand to ((D C) B) A. This is what somebody gets
  who knows the selectivities when the query is written; it is no answer where they change.

Each contender runs in a process of its own (harness.py), warms up, and then reports batch by batch. The table holds,
for each,

- rows/s: input rows over the time from the first read to the last delivery, and its ratio to both of Spark's;
- CPU seconds of all its processes over the same time, and Spark's (in memory) over its own, for the same rows. The load
  of others disturbs this ratio less than the one of rows/s;
- seconds of the median and of the last batch; the state after the last batch in bytes and rows, and how many of
  these rows are intermediate results (how they are counted: contenders/chain_spark.py, chain_watersmeet.py);
- peak memory of its processes;
- whether the answer is right: as many rows as the keys say, and the fingerprint of DuckDB's answer.

A contender that is not done after `--seconds` is ended. Its rows/s are then those of the batches that it finished,
which flatters it, since batches get more expensive as state grows: its ratios are shown with a "<", those to it with
a ">".

With `--repeat`, contenders run in turns, each line shows the run with the median rows/s, and a ratio is the median of
the ratios within each turn, with the least and the greatest. On a shared machine, figures of one contender can differ
more from turn to turn than those of two contenders do: a ratio of figures from two turns says nothing.

    python -m benchmarks.chain [--rows N] [--batches N] [--fanout F] [--matches M] [--only NAME,NAME] [--repeat N]
                               [--seconds S] [--json FILE] [--out FOLDER]
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

if __package__ in (None, ""):  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.chain_data import Chain, Fingerprint, answer, count_rows, prepare
from benchmarks.harness import Event, Ran, align, choose, gigabytes, run_contender

SPARK, WATERSMEET = "benchmarks.contenders.chain_spark", "benchmarks.contenders.chain_watersmeet"
BASELINES = ("spark-memory", "spark-rocksdb")
SECONDS = 150.0


@dataclass(frozen=True)
class Contender:
    name: str
    module: str
    arguments: tuple[str, ...]
    what: str
    informed: bool = False  # told the statistics of the data


CONTENDERS = (
    Contender("spark-memory", SPARK, ("--store", "memory"), "Spark's joins as the text has them, in memory"),
    Contender("spark-rocksdb", SPARK, ("--store", "rocksdb"), "the same on RocksDB"),
    Contender("left-deep", WATERSMEET, ("--plan", "left-deep"), "Watersmeet, the same shape of plan"),
    Contender("mjoin", WATERSMEET, ("--plan", "mjoin"), "Watersmeet, one routed join, routes as the text has them"),
    Contender("mjoin-init", WATERSMEET, ("--plan", "mjoin-init"), "the same, routes chosen from statistics", True),
    Contender("auto", WATERSMEET, ("--plan", "auto"), "Watersmeet's choice from statistics", True),
    Contender(
        "spark-by-hand", SPARK, ("--store", "memory", "--order", *"DCBA"), "Spark's joins, reordered by hand, in memory"
    ),
)


@dataclass(frozen=True)
class Result:
    """One run of one contender. Sizes are those after its last batch."""

    contender: str
    turn: int
    outcome: str  # ran | stopped | failed
    plan: str = ""
    rows: int = 0
    batches: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    seconds_by_batch: tuple[float, ...] = ()
    state_bytes: int = 0
    state_rows: int = 0
    intermediate_rows: int = 0
    peak_rss_bytes: int = 0
    peak_pss_bytes: int = 0
    found: Fingerprint | None = None
    expected: Fingerprint | None = None
    load_before: float = 0.0
    log: str = ""

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def rows_per_cpu_second(self) -> float:
        return self.rows / self.cpu_seconds if self.cpu_seconds else 0.0

    @property
    def wrong(self) -> bool:
        return self.outcome == "ran" and self.found != self.expected

    @property
    def answer(self) -> str:
        if self.outcome != "ran" or self.found is None or self.expected is None:
            return f"{self.outcome} after {self.batches} batches"
        if not self.wrong:
            return f"{self.found.rows:,} right"
        if self.found.rows == self.expected.rows:
            return f"{self.found.rows:,} WRONG rows"
        return f"{self.found.rows:,} WRONG: {self.expected.rows:,}"


def run(contender: Contender, turn: int, data: Chain, expected: Fingerprint, seconds: float) -> Result:
    arguments = contender.arguments
    if contender.informed:
        arguments = (*arguments, "--statistics", json.dumps(data.statistics))
    print(f"{contender.name}, {contender.what}: batch", end="", file=sys.stderr, flush=True)
    ran = run_contender(contender.name, contender.module, prepare(data), arguments, seconds, _show_progress)
    result = _result(contender, turn, ran, expected)
    said = f" {result.outcome}, {result.rows_per_second:,.0f} rows/s (load before: {result.load_before:.1f})"
    print(said, *([result.log] if result.log else []), sep="\n", file=sys.stderr, flush=True)
    return result


def _show_progress(event: Event) -> None:
    if event["event"] == "batch":
        print(f" {event['batch']}", end="", file=sys.stderr, flush=True)


SIZES = ("elapsed", "cpu_seconds", "state_bytes", "state_rows", "intermediate_rows")


def _result(contender: Contender, turn: int, ran: Ran, expected: Fingerprint) -> Result:
    batches = ran.batches
    last: Event = batches[-1] if batches else dict.fromkeys(SIZES, 0)
    return Result(
        contender.name,
        turn,
        "ran" if ran.complete else "stopped" if ran.stopped else "failed",
        plan=ran.end.get("plan", "") if ran.complete else "",
        rows=sum(batch["rows_in"] for batch in batches),
        batches=len(batches),
        seconds=last["elapsed"],
        cpu_seconds=last["cpu_seconds"],
        seconds_by_batch=tuple(batch["seconds"] for batch in batches),
        state_bytes=last["state_bytes"],
        state_rows=last["state_rows"],
        intermediate_rows=last["intermediate_rows"],
        peak_rss_bytes=ran.peak_rss_bytes,
        peak_pss_bytes=ran.peak_pss_bytes,
        found=Fingerprint(ran.end["rows_out"], ran.end["fingerprint"]) if ran.complete else None,
        expected=expected,
        load_before=ran.load_before,
        log=ran.log,
    )


# ---------------------------------------------------------------- the table

COLUMNS = (
    "contender",
    "rows/s",
    *(f"x {name}" for name in BASELINES),
    "CPU s",
    "x CPU",
    "s/batch",
    "last batch",
    "state",
    "state rows",
    "intermediate",
    "peak PSS",
    "peak RSS",
    "answer",
)


def table(results: Sequence[Result]) -> str:
    """One line per contender; of several runs, the one with the median rows/s, and the spread of all."""
    middle = middles(results)
    lines = [COLUMNS]
    for name, result in middle.items():
        if not result.batches:
            lines.append((name, *[""] * (len(COLUMNS) - 2), result.answer))
            continue
        rates = [run.rows_per_second for run in results if run.contender == name and run.batches]
        spread = f" ({min(rates):,.0f}..{max(rates):,.0f})" if len(rates) > 1 else ""
        lines.append(
            (
                name,
                f"{result.rows_per_second:,.0f}{spread}",
                *(_ratio(results, name, base, lambda run: run.rows_per_second) for base in BASELINES),
                f"{result.cpu_seconds:.0f}",
                _ratio(results, name, BASELINES[0], lambda run: run.rows_per_cpu_second),
                f"{statistics.median(result.seconds_by_batch):.2f}",
                f"{result.seconds_by_batch[-1]:.2f}",
                f"{result.state_bytes / 2**20:,.0f} MB",
                f"{result.state_rows:,}",
                f"{result.intermediate_rows:,}",
                gigabytes(result.peak_pss_bytes),
                gigabytes(result.peak_rss_bytes),
                result.answer,
            )
        )
    return align(lines)


def middles(results: Sequence[Result]) -> dict[str, Result]:
    """For each contender the run with the median rows/s, of those that were complete if any were."""
    by_name: dict[str, list[Result]] = {}
    for result in results:
        by_name.setdefault(result.contender, []).append(result)

    def middle(runs: list[Result]) -> Result:
        ran = [run for run in runs if run.outcome == "ran"] or runs
        return sorted(ran, key=lambda run: run.rows_per_second)[len(ran) // 2]

    return {name: middle(runs) for name, runs in by_name.items()}


def _ratio(results: Sequence[Result], name: str, base: str, rate: Callable[[Result], float]) -> str:
    """The median of the ratios of two contenders' rates in each turn, and their spread."""
    of_base = {run.turn: run for run in results if run.contender == base and run.batches}
    pairs = [(run, of_base[run.turn]) for run in results if run.contender == name and run.turn in of_base]
    ratios = [rate(run) / rate(other) for run, other in pairs if run.batches]
    if not ratios:
        return "-"
    bound = ""
    if name != base:
        bound += "<" if any(run.outcome == "stopped" for run, _ in pairs) else ""
        bound += ">" if any(other.outcome == "stopped" for _, other in pairs) else ""
    spread = f" ({min(ratios):.2f}..{max(ratios):.2f})" if len(ratios) > 1 and name != base else ""
    return f"{bound}{statistics.median(ratios):.2f}{spread}"


def agreement(results: Sequence[Result]) -> str:
    """Says whether the contenders that came to their end delivered the answer."""
    ran = [result for result in results if result.outcome == "ran"]
    wrong = sorted({result.contender for result in ran if result.wrong})
    if not ran:
        return "no run came to its end"
    if wrong:
        return f"the answer is wrong: {', '.join(wrong)}"
    return f"all {len(ran)} runs that came to their end delivered DuckDB's answer"


# ---------------------------------------------------------------- the picture


def draw(results: Sequence[Result], data: Chain, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [result for result in middles(results).values() if result.batches]
    panels: tuple[tuple[str, Callable[[Result], float], str], ...] = (
        ("input rows/s", lambda result: result.rows_per_second, "{:,.0f}"),
        ("state, MB", lambda result: result.state_bytes / 2**20, "{:,.0f}"),
        ("intermediate rows in state, millions", lambda result: result.intermediate_rows / 1e6, "{:.2f}"),
        ("peak memory (PSS), GB", lambda result: result.peak_pss_bytes / 2**30, "{:.2f}"),
    )
    figure, axes = plt.subplots(1, len(panels), figsize=(16, 0.5 * len(shown) + 1.6), sharey=True, layout="constrained")
    colours = ["#999999" if result.contender.startswith("spark") else "#0072b2" for result in shown]
    names = [result.contender + (" (stopped)" if result.outcome == "stopped" else "") for result in shown]
    for axis, (title, value, form) in zip(axes, panels, strict=True):
        bars = axis.barh(names, [value(result) for result in shown], color=colours)
        axis.bar_label(bars, labels=[form.format(value(result)) for result in shown], padding=3, fontsize=8)
        axis.set_title(title, fontsize=10)
        axis.margins(x=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].invert_yaxis()
    figure.suptitle(
        f"A(x) - B(x,y) - C(y,z) - D(z), {data.rows:,} rows each in {data.files} batches, "
        f"fan-out {data.fanout:g}, {data.fanout:g} and {data.matches:g}; 2 cores",
        fontsize=11,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> int:
    parser = argparse.ArgumentParser(description="compare plans and engines on a chain of four streams")
    parser.add_argument("--rows", type=int, default=Chain.rows, help="of each of the four streams")
    parser.add_argument("--batches", type=int, default=Chain.files)
    parser.add_argument("--fanout", type=float, default=Chain.fanout, help="matches of a row at the first two links")
    parser.add_argument("--matches", type=float, default=Chain.matches, help="matches of a row at the last link")
    names = [contender.name for contender in CONTENDERS]
    parser.add_argument("--only", default="", help=f"names, separated by commas: {', '.join(names)}")
    parser.add_argument("--repeat", type=int, default=1, help="runs of every contender, in turns")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="after which a contender is ended")
    parser.add_argument("--json", type=Path, help="also write all runs to this file")
    parser.add_argument("--out", type=Path, help="also draw a picture into this folder")
    args = parser.parse_args()
    try:
        wanted = choose(names, args.only)
        data = Chain(args.rows, args.batches, args.fanout, args.matches)
    except ValueError as error:
        parser.error(str(error))
    sizes, expected = count_rows(data), answer(data)
    assert sizes.abcd == expected.rows, f"DuckDB has {expected.rows} rows, the keys say {sizes.abcd}"
    print(f"{data.total_rows:,} rows in; AB {sizes.ab:,}, ABC {sizes.abc:,}, answer {sizes.abcd:,} rows", flush=True)
    results = [
        run(contender, turn, data, expected, args.seconds)
        for turn in range(args.repeat)
        for contender in CONTENDERS
        if contender.name in wanted
    ]
    print(table(results))
    print(agreement(results))
    for result in middles(results).values():
        if result.plan:
            print(f"plan of {result.contender}: {result.plan}")
    if args.json:
        runs = [{**asdict(result), "rows_per_second": result.rows_per_second} for result in results]
        args.json.write_text(json.dumps({"data": asdict(data), "sizes": asdict(sizes), "runs": runs}, indent=1))
    if args.out:
        path = args.out / "chain.png"
        draw(results, data, path)
        print(f"picture: {path}")
    return 1 if any(result.wrong or result.outcome == "failed" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
