"""The command `watersmeet`: one module a command, and the one place where errors become messages and exit codes.

Exit codes: 0 success, 1 a fault, 2 a mistake of the user's, 130 interrupted, 141 the reader of our output went away,
143 a run that SIGTERM has ended between two batches.
A traceback appears only if the environment has `WATERSMEET_TRACE=1`.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module, metadata

from watersmeet.cli.command_parser import Command, add_commands
from watersmeet.errors import TRACE, InternalError, WatersmeetError, traces_wanted
from watersmeet.secrets import hide

# Each module is written where it is imported, so that nothing runs what it has read.
COMMANDS = {
    "run": Command("run a job", lambda: import_module("watersmeet.cli.run")),
    "explain": Command("show the plan of a job, without running it", lambda: import_module("watersmeet.cli.explain")),
    "schema": Command(
        "print the JSON Schema of job files, for editors", lambda: import_module("watersmeet.cli.schema")
    ),
    "generate": Command(
        "write synthetic or Nexmark streams to files", lambda: import_module("watersmeet.cli.generate")
    ),
    "state": Command("show what a checkpoint holds, and look after it", lambda: import_module("watersmeet.cli.state")),
    "demo": Command(
        "run the main job on generated streams, and check its answer", lambda: import_module("watersmeet.cli.demo")
    ),
}

INTERRUPTED = 130  # 128 + SIGINT, as shells report it
BROKEN_PIPE = 141  # 128 + SIGPIPE


def main(argv: list[str] | None = None) -> int:
    """Run the command line `argv`, or that of the process, and return the exit code."""
    return run_parsed(make_parser().parse_args(argv))


def run_parsed(args: argparse.Namespace) -> int:
    """Call the function that the parser left in `args.run`; whatever it raises becomes a message and an exit code."""
    try:
        code: int = args.run(args)
        sys.stdout.flush()  # so that a reader who has gone shows here, not when the interpreter ends
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except WatersmeetError as error:
        return _fail(error)
    except Exception as error:
        return _fail(
            InternalError(
                f"internal error: {type(error).__name__}: {error}",
                hint=f"Run it again with {TRACE}=1 to see where it happened, and report it.",
            )
        )


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="watersmeet", description="Adaptive multi-way stream joins.")
    parser.add_argument("--version", action="version", version=f"watersmeet {_version()}")
    add_commands(parser, COMMANDS, title="commands", metavar="COMMAND")
    return parser


def _fail(error: WatersmeetError) -> int:
    if traces_wanted():
        print(hide(traceback.format_exc()), end="", file=sys.stderr)
    print(error.render(), file=sys.stderr)
    return error.exit_code


def _discard_output() -> None:
    """Let the interpreter flush what is left into nothing when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version() -> str:
    try:
        return metadata.version("watersmeet")
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "(not installed)"
