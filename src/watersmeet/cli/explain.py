"""`watersmeet explain`: the plan that a job would run. Starts no JVM and reads no source."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from watersmeet.cli.notes import tell
from watersmeet.config import load_job
from watersmeet.errors import JobError
from watersmeet.lang.binder import bind
from watersmeet.plan.output_mode import IN_JOB_FILE, check_output_mode
from watersmeet.runtime.looking_ahead import look_against, look_ahead
from watersmeet.start.resumption import Resumption
from watersmeet.start.showing import start_json, start_picture, start_text
from watersmeet.state.folders import CheckpointFolders

STDOUT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", help="the TOML job file")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as one JSON object")
    form.add_argument(
        "--svg",
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="as a picture with estimated rates and sizes, in FILE or on the standard output; stands after the job",
    )
    parser.add_argument(
        "--against",
        metavar="CHECKPOINT",
        help="say what a run would do with this checkpoint: what it keeps, makes and drops, or why it is refused",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="replace a setting of the job")
    parser.set_defaults(run=explain)


def explain(args: argparse.Namespace) -> int:
    job = load_job(args.job, args.set)
    query, settings, runtime = bind(job.query, job.streams()), job.settings, job.run.runtime
    check_output_mode(query, job.sink.mode, IN_JOB_FILE)
    if args.against is not None:
        return _explain_against(args, look_against(query, settings, CheckpointFolders(args.against), runtime, tell))
    folders = None if job.run.checkpoint is None else CheckpointFolders(job.run.checkpoint)
    start = look_ahead(query, settings, folders, runtime, tell)
    if args.json:
        print(json.dumps(start_json(start), indent=2))
    elif args.svg is not None:
        picture = start_picture(start)
        if args.svg == STDOUT:
            print(picture, end="")
        else:
            _write_picture(args.svg, picture, args.job)
            print(f"plan {start.tree} is drawn in {args.svg}")
    else:
        print(start_text(start), end="")
    return 0


def _explain_against(args: argparse.Namespace, found: Resumption) -> int:
    """Show what a run would do with a checkpoint, or the error that it would end with."""
    if args.svg is not None:
        raise JobError("--against has no picture", hint="Leave out --svg.")
    if args.json:
        print(json.dumps(found.to_json(), indent=2))
    elif found.refused is not None:
        raise found.refused
    else:
        print("\n".join(found.sentences()))
    return 0 if found.refused is None else found.refused.exit_code


def _write_picture(file: str, picture: str, job: str) -> None:
    if Path(file).resolve() == Path(job).resolve():
        raise JobError(
            f'the picture would replace the job file "{job}"', hint="Name another file: explain job.toml --svg plan.svg"
        )
    try:
        Path(file).write_text(picture, encoding="utf-8")
    except OSError as error:
        raise JobError(
            f'cannot write the picture to "{file}"',
            detail=f"{error.strerror or error}.",
            hint="Name a file in a folder that exists and that you may write to, or none for the standard output.",
        ) from error
