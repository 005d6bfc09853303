"""Made the golden checkpoints of format 3 as it was before its files carried checksums.

DO NOT RUN THIS AGAIN, for the reason that `make.py` gives, which also says what is in each folder. They lie in
`format-3`. How they were made: `python tests/golden/checkpoints/make_3.py [NAME ..]`.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from make import (  # noqa: E402
    MADE_IN,
    ONE_KEY,
    TWO_KEYS,
    Golden,
    _keep,
    _write_expected,
    failed_in_the_function,
    killed,
    to_the_end,
)

from judged_jobs import (  # noqa: E402
    JudgedJob,
    draw_streams,
    duckdb_answer,
    late_rows,
    oracle_answer,
    write_streams,
)

FORMAT = 3


def with_lists(job: JudgedJob) -> None:
    """To the end of what there was, with the names of files in lists from the third on."""
    from watersmeet.state import file_lists

    file_lists.LISTED = 2
    job.finish()


GOLDENS = {
    "local-windows": Golden(
        "two stages, windows and late rows; five of eight batches read, names of files in lists",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 8, 10, 8, seed=21, late=2),
        5,
        with_lists,
        {},
    ),
    "local-spilled": Golden(
        "one join within a budget, killed after its last delivery: generations spilled, results owed",
        ONE_KEY,
        draw_streams(ONE_KEY, 12, 10, 8, seed=22, late=2),
        10,
        killed("after-delivery:10"),
        {"run": 'memory = "3000"\nslots = 1', "adapt": 'plan = "mjoin"\nmerge = "off"'},
        (("adapt.merge=state-manager",), ("run.slots=3",)),
    ),
    "local-undelivered": Golden(
        "killed between the commit of the fourth batch and its delivery; it has late rows too",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 7, 10, 8, seed=23, late=2),
        5,
        killed("before-delivery:4"),
        {"run": "slots = 1"},
    ),
    "local-round": Golden(
        "killed between the commit of a round of merges, after the last batch that there was, and its delivery",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 6, 12, 8, seed=24, late=2),
        4,
        killed("before-delivery:5"),
        {"run": 'memory = "4000"\nslots = 1', "adapt": 'plan = "((A B) C)"\nmerge = "off"'},
    ),
    "spark-windows": Golden(
        "on Spark: two stages, windows and late rows; three of five batches read, and the run ended by itself",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 5, 10, 8, seed=25, late=2),
        3,
        to_the_end,
        {"runtime": "spark"},
    ),
    "spark-undelivered": Golden(
        "on Spark: killed between the commit of the third batch and its delivery; Spark gives it again",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 5, 10, 8, seed=26, late=2),
        4,
        killed("before-delivery:3"),
        {"runtime": "spark", "run": 'memory = "5000"'},
    ),
    "spark-function": Golden(
        "on Spark, within a budget, results to foreachBatch: the function took batch 0, and failed with batch 1",
        TWO_KEYS,
        draw_streams(TWO_KEYS, 5, 14, 8, seed=27, late=2),
        3,
        failed_in_the_function,
        {"runtime": "spark", "run": 'memory = "5000"', "adapt": 'plan = "((A B) C)"\nmerge = "off"'},
        delivers="to a function",
    ),
}


def make(name: str, golden: Golden, format: int = FORMAT) -> None:
    home = MADE_IN / name
    shutil.rmtree(home, ignore_errors=True)
    job = JudgedJob.write(home, golden.case, **golden.job)
    write_streams(golden.case, golden.streams, home / "in", 0, golden.read)
    golden.make(job)
    write_streams(golden.case, golden.streams, home / "rest", golden.read)
    expected = duckdb_answer(golden.case, golden.streams)
    assert expected == oracle_answer(golden.case, golden.streams)
    _write_expected(home / "expected.parquet", golden.case, expected)
    about = {
        "what": golden.what,
        "format": format,
        "made_in": str(home),
        "runtime": golden.job.get("runtime", "local"),
        "delivers": golden.delivers,
        "rows": expected.total(),
        "late": late_rows(golden.case, golden.streams),
        "also_with": golden.also_with,
    }
    (home / "about.json").write_text(json.dumps(about, indent=2) + "\n")
    target = HERE / f"format-{format}" / name
    _keep(home, target)
    sizes = [path.stat().st_size for path in target.rglob("*") if path.is_file()]
    counts = {kind: len(list((target / "ck/state").glob(f"{kind}/*"))) for kind in ("versions", "snapshots", "files")}
    print(name, counts, f"{job.answer().total()} of {about['rows']} rows, {job.late()} of {about['late']} late;")
    print(f"  {sum(sizes):,} bytes in {len(sizes)} files", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or GOLDENS:
        make(name, GOLDENS[name])
