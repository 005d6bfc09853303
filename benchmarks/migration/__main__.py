"""What changes of the plan cost and gain, on Spark (`local[2]`), or with `--local` in this process. Three parts:

- **flip** (`flip.py`): statistics of a join of four flip half way; `replan` beside the plan that was right at first and
  the one that is right afterwards. Target: within two intervals 90 % of the latter's throughput.
- **gaps** (`gaps.py`): at `--rows` rows of state, how long the output is silent and how long it takes until the new
  plan answers, for every road, and for a replay into a new query. Target: seeded's longest gap is at most 1.5 times
  that of an ordinary batch.
- **loop** (`loop.py`): what `replan` costs where nothing changes. Target: below 2 %.

Each answer is compared with DuckDB's; the exit code is 1 if one is wrong. A target that is missed is told, no more.
All of it takes a quarter of an hour on two cores; with `--quick`, three minutes.

    python -m benchmarks.migration [flip] [gaps] [loop] [--rows N] [--turns N] [--roads R,..] [--quick] [--local] ..
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.data import ROOT
from benchmarks.migration import flip, gaps, loop

PARTS = ("flip", "gaps", "loop")


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.migration", description="what changes of the plan cost and gain")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; all of them if none")
    parser.add_argument("--rows", type=int, help="of state in the gaps; 10 million, or 1 million with --quick")
    parser.add_argument("--turns", type=int, help="of the flip and the loop")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--local", action="store_true", help="on the local runtime")
    parser.add_argument("--roads", default=",".join(gaps.ROADS), help="of the gaps, as in seeded,moving-state")
    parser.add_argument("--saturated", action="store_true", help="rows of the gaps come as fast as they are taken")
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    roads = args.roads.split(",")
    if unknown := set(roads) - set(gaps.ROADS):
        parser.error(f"no road {', '.join(sorted(unknown))}; there are {', '.join(gaps.ROADS)}")
    wanted, runtime, quick = args.parts or PARTS, "local" if args.local else "spark", args.quick
    rows = args.rows or (1_000_000 if quick else 10_000_000)
    ROOT.mkdir(exist_ok=True)
    right = True
    for part in PARTS:
        if part not in wanted:
            continue
        print(f"(load before: {os.getloadavg()[0]:.1f})", file=sys.stderr, flush=True)
        home = Path(tempfile.mkdtemp(prefix=f"migration-{part}-", dir=ROOT))
        try:
            match part:
                case "flip":
                    data = flip.data_of(10_000 if quick else 40_000)
                    right &= flip.measure(data, runtime, args.turns or 2, home)
                case "gaps":
                    right &= gaps.measure(gaps.data_of(rows), runtime, home, not args.saturated, roads)
                case "loop":
                    # Of few batches the local runtime makes a second or two, in which what the loop costs is lost.
                    batches = 30 if runtime == "spark" else 150
                    data = loop.data_of(20_000 if quick else 50_000, 12 if quick else batches)
                    right &= loop.measure(data, runtime, args.turns or (2 if quick else 3), home)
        finally:
            shutil.rmtree(home, ignore_errors=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
