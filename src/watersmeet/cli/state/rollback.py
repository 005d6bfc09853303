"""`watersmeet state rollback`: goes back to an earlier version, after it has said what that undoes, and asked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from watersmeet.cli.notes import tell
from watersmeet.cli.state.checkpoint import add_checkpoint, batch_text, readable_versions
from watersmeet.errors import CheckpointError, WatersmeetError
from watersmeet.model.quantities import time_text
from watersmeet.runtime.rollback import Rollback, held_lock, look_ahead, roll_back
from watersmeet.runtime.withdrawing import HOW, finish_rollbacks
from watersmeet.state.folders import CheckpointFolders
from watersmeet.state.manifest import ASIDE, KEEP, REMOVE, WITHDRAWALS, Manifest

NAMES_SHOWN = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint(parser)
    parser.add_argument("--to-version", type=int, required=True, metavar="N", help='one that "state ls" says can be')
    parser.add_argument(
        "--results",
        choices=WITHDRAWALS,
        default=ASIDE,
        help="; ".join(f"{name}: result files that were delivered since are {what}" for name, what in HOW.items()),
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    readable_versions(args.checkpoint)  # says what is missing, where there is no checkpoint
    folders = CheckpointFolders(args.checkpoint)
    lock = held_lock(folders)
    try:
        plan = look_ahead(folders, args.to_version)
        print("\n".join(describe(plan, args.results)), flush=True)
        if not args.yes and not _agreed():
            print("nothing was changed")
            return 0
        manifest = roll_back(folders, plan, args.results)
        print(f"version {manifest.version} is as version {plan.to.version} was", flush=True)
        _finish(folders, manifest)
    finally:
        lock.release()
    return 0


def _finish(folders: CheckpointFolders, manifest: Manifest) -> None:
    try:
        finish_rollbacks(folders, manifest)
    except (WatersmeetError, OSError) as error:
        reason = error.primary if isinstance(error, WatersmeetError) else str(error)
        tell(f"not all files could be dealt with ({reason}); the next run does so before anything else")
        return
    print("start the job again: it goes on from there")


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise CheckpointError(
            "a rollback has to be agreed to", detail="Nobody can be asked here.", hint="Add --yes if it is meant so."
        )
    return input("go back? [y/N] ").strip().lower() in ("y", "yes")


def describe(plan: Rollback, how: str) -> Iterator[str]:
    """What it would undo, for people."""
    to, head = plan.to, plan.head
    when = f", committed {time_text(to.committed_us).partition('.')[0]} UTC" if to.committed_us is not None else ""
    yield f"back to version {to.version}, after {batch_text(to)}{when}"
    yield f"from version {head.version}, after {batch_text(head)}"
    yield (
        f"undone: {_count(head.version - to.version, 'version')}, {_count(head.last_batch - to.last_batch, 'batch')}, "
        f"{head.rows_in - to.rows_in:,} rows in, {head.rows_out - to.rows_out:,} rows out, "
        f"{head.rows_late - to.rows_late:,} late"
    )
    for stream, again in plan.again.items():
        yield f"read again: stream {stream}, {again.rows:,} rows" + (
            f" in {_count(len(again.files), 'file')} ({_some(again.files)})" if again.files else ""
        )
        if again.gone:
            missing = "their rows will be missing, unless the job has another path for them"
            yield f"  not there any more, so that {missing}: {_some(again.gone)}"
    if plan.on_spark and head.last_batch > to.last_batch:
        batches = f"batches {to.last_batch + 1} to {head.last_batch}"
        yield f"Spark's notes of {batches} are deleted, so that it reads again what it had read for them"
    yield from _results(plan, how)


def _results(plan: Rollback, how: str) -> Iterator[str]:
    if plan.to_function and plan.undone:
        first, last, coming = plan.undone[0].id, plan.undone[-1].id, plan.head.next_delivery
        yield f"the function of foreachBatch has got ids {first} to {last}, or may have: they stay where it put them"
        yield f"  results come again under new ids, from {coming} on: who skips what it has had by id gets them twice"
    files = plan.files
    if not files:
        yield "no files of results were written since"
        return
    lying = sum(map(len, plan.delivered.values()))
    yield f"files of results and late rows since: {len(files):,}, of which {lying:,} lie in the output now"
    for folder, names in plan.delivered.items():
        aside = plan.aside[folder].path().rpartition("/")[2]
        done = {ASIDE: f"moved aside, to {aside} there", REMOVE: "deleted", KEEP: HOW[KEEP]}[how]
        yield f"  {folder.path()}: {_some(names)}; they are {done}"
    if len(files) > lying and not plan.to_function:
        where = ", ".join(folder.path() for folder in plan.outputs) or "an output that is not known here"
        yield f"  {len(files) - lying:,} do not lie in {where}: not yet delivered, or taken from there since"


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _count(number: int, what: str) -> str:
    """
    >>> _count(1, "batch"), _count(2, "batch"), _count(3, "file")
    ('1 batch', '2 batches', '3 files')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}{'es' if what.endswith('ch') else 's'}"
