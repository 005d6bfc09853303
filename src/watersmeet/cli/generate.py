"""`watersmeet generate`: synthetic and Nexmark streams, written as folders of files.

Each stream becomes a folder of numbered files under `--out`. What was written goes to stdout, with the lines to paste
into a job file; progress goes to stderr, and only to a terminal. The same arguments write the same rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from watersmeet.errors import JobError, did_you_mean
from watersmeet.generate import nexmark, synthetic
from watersmeet.generate.arrivals import ARRIVALS
from watersmeet.generate.files import (
    FORMATS,
    check_format,
    equal_parts,
    parts_of,
    prepare_folder,
    schema_text,
    write_part,
    write_parts,
)
from watersmeet.generate.synthetic import (
    KeyColumn,
    Keys,
    Phase,
    Ranged,
    Share,
    StreamSpec,
    SyntheticSpec,
    Uniform,
    ranged,
)
from watersmeet.model.quantities import parse_duration

if TYPE_CHECKING:
    SubParsers = argparse._SubParsersAction[argparse.ArgumentParser]

SETTINGS = ("rate", "domain", "range", "ratio")

_SYNTHETIC_HELP = """\
Write streams with known statistics: key columns, a payload v (0..999) and the event time ts in microseconds.

Keys are uniform in 0..DOMAIN-1 (--domain), or each value appears R times in every K rows (--range K --ratio R).
With --share, shares of the key space have a K and R each: a share is a range of the key hash, that is, so many of
the groups of a join.

examples:
  watersmeet generate synthetic --out data --streams A,B,C --rows 3000000 --files 10 --domain 3000000
  watersmeet generate synthetic --out data --rows 300000 --share 1/3:30000:4 --share 1/3:30000:2 --share 1/3:30000:1
  watersmeet generate synthetic --out data --rows 100000 --domain 5000 --arrivals pareto \\
      --shift "0 seconds:C.rate=200" --shift "60 seconds:domain=1000,A.rate=500"
"""
_NEXMARK_HELP = """\
Write Nexmark's streams person, auction and bid (1, 3 and 46 of every 50 events). File k of each stream covers the
same stretch of events.

example:
  watersmeet generate nexmark --out data --events 500000 --files 10 --rate 10000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(title="what to generate", metavar="synthetic | nexmark", required=True)
    _add_synthetic(verbs)
    _add_nexmark(verbs)


def _add_synthetic(verbs: SubParsers) -> None:
    parser = verbs.add_parser(
        "synthetic",
        help="streams with chosen keys, rates and shifts",
        description=_SYNTHETIC_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_output(parser)
    parser.add_argument("--streams", default="A,B,C", metavar="NAMES", help="names, by commas (default: A,B,C)")
    parser.add_argument("--rows", type=int, required=True, metavar="N", help="rows of each stream")
    parser.add_argument("--rows-per-file", type=int, metavar="N", help="rows of a file, instead of --files")
    parser.add_argument("--keys", default="k", metavar="NAMES", help="key columns, by commas (default: k)")
    parser.add_argument("--domain", type=int, metavar="N", help="keys uniform in 0..N-1 (default: 1000)")
    parser.add_argument("--range", type=int, metavar="K", dest="range_rows", help="tuple range of the keys")
    parser.add_argument("--ratio", type=int, metavar="R", help="join ratio: a value's rows in every K (default: 1)")
    parser.add_argument(
        "--share", action="append", default=[], metavar="S:K:R", help='a share of the key space, such as "1/3:30000:4"'
    )
    parser.add_argument(
        "--arrivals", default="steady", metavar="|".join(ARRIVALS), help="how rows arrive (default: steady)"
    )
    parser.add_argument("--rate", type=float, default=1000.0, metavar="N", help="rows a second (default: 1000)")
    parser.add_argument(
        "--shift",
        action="append",
        default=[],
        metavar="TIME:NAME=N,..",
        help="from TIME on, another rate, domain, range or ratio; STREAM. or COLUMN. before a name confines it",
    )
    parser.add_argument("--disorder", default="0 seconds", metavar="TIME", help="how far rows may be out of order")
    parser.set_defaults(run=run_synthetic)


def _add_nexmark(verbs: SubParsers) -> None:
    parser = verbs.add_parser(
        "nexmark",
        help="persons, auctions and bids of the Nexmark benchmark",
        description=_NEXMARK_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_output(parser)
    parser.add_argument("--events", type=int, required=True, metavar="N", help="events of all three streams together")
    parser.add_argument("--rate", type=float, default=10_000.0, metavar="N", help="events a second (default: 10000)")
    parser.add_argument(
        "--disorder-group", type=int, default=1, metavar="G", help="shuffle events in groups of G (default: 1)"
    )
    parser.set_defaults(run=run_nexmark)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a folder for each stream is made here")
    parser.add_argument("--files", type=int, metavar="N", help="files of each stream, of equal size (default: 10)")
    parser.add_argument("--format", default="parquet", metavar="|".join(FORMATS), help="default: parquet")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="same seed, same rows (default: 1)")
    parser.add_argument("--start-us", type=int, default=0, metavar="N", help="first event time (default: 0)")
    parser.add_argument("--overwrite", action="store_true", help="replace the files of an earlier run")


def run_synthetic(arguments: argparse.Namespace) -> int:
    """Write the streams that the arguments describe, each to its folder."""
    check_format(arguments.format)
    spec = synthetic_spec(arguments)
    rows: int = arguments.rows
    if arguments.rows_per_file is None:
        sizes = equal_parts(rows, 10 if arguments.files is None else arguments.files)
    elif arguments.files is None:
        sizes = parts_of(rows, arguments.rows_per_file)
    else:
        raise JobError("both --files and --rows-per-file are given", hint="Leave one of them out.")
    folders = {stream.name: arguments.out / stream.name for stream in spec.streams}
    for folder in folders.values():
        prepare_folder(folder, overwrite=arguments.overwrite)
    now = time.time()
    with _progress(len(sizes) * len(folders)) as progress:
        for stream in spec.streams:
            made = synthetic.batches(spec, stream.name)
            for path in write_parts(made, sizes, folders[stream.name], arguments.format, stream.schema, now):
                progress.advance(str(path))
    for stream in spec.streams:
        _print_summary(stream.name, rows, len(sizes), arguments.format, folders[stream.name], stream.schema)
    return 0


def run_nexmark(arguments: argparse.Namespace) -> int:
    """Write person, auction and bid."""
    check_format(arguments.format)
    files = 10 if arguments.files is None else arguments.files
    if arguments.events < 1:
        raise JobError(f"--events {arguments.events} is not positive")
    sizes = equal_parts(arguments.events, files)
    if min(sizes) < nexmark.EVENTS_PER_EPOCH:
        raise JobError(
            f"cannot divide {arguments.events} events into {files} files",
            detail=f"A file covers at least {nexmark.EVENTS_PER_EPOCH} events, so that it has a row of each stream.",
            hint="Ask for fewer files.",
        )
    # A first event checks the rate and the group before any folder is touched.
    nexmark.events("person", arguments.seed, 0, 1, arguments.rate, arguments.start_us, arguments.disorder_group)
    folders = {kind: arguments.out / kind for kind in nexmark.SCHEMAS}
    for folder in folders.values():
        prepare_folder(folder, overwrite=arguments.overwrite)
    rows = dict.fromkeys(folders, 0)
    now = time.time()
    first = 0
    with _progress(len(sizes) * len(folders)) as progress:
        for number, size in enumerate(sizes):
            for kind, folder in folders.items():
                made = nexmark.batches(
                    kind,
                    arguments.seed,
                    first,
                    first + size,
                    arguments.rate,
                    arguments.start_us,
                    arguments.disorder_group,
                )
                table = pa.Table.from_batches(made, nexmark.SCHEMAS[kind])
                progress.advance(str(write_part(table, folder, number, arguments.format, now)))
                rows[kind] += table.num_rows
            first += size
    for kind, folder in folders.items():
        _print_summary(kind, rows[kind], files, arguments.format, folder, nexmark.SCHEMAS[kind])
    return 0


def synthetic_spec(arguments: argparse.Namespace) -> SyntheticSpec:
    """The spec that the arguments of `generate synthetic` describe."""
    names = _names(arguments.streams, "--streams")
    columns = _names(arguments.keys, "--keys")
    values = _keys(arguments)
    shifts = sorted((_shift(text, names, columns) for text in arguments.shift), key=lambda shift: shift.after)
    disorder = parse_duration(arguments.disorder, "--disorder")
    streams = tuple(
        StreamSpec(
            name,
            arguments.rows,
            tuple(KeyColumn(column, values) for column in columns),
            arguments.rate,
            arguments.arrivals,
            disorder,
            _phases(name, dict.fromkeys(columns, values), shifts),
        )
        for name in names
    )
    return SyntheticSpec(streams, arguments.seed, arguments.start_us)


def _names(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not name.isidentifier():
            raise JobError(
                f'"{name}" in {option} is not a name', detail="A name is letters, digits and _, divided by commas."
            )
        if names.count(name) > 1:
            raise JobError(f'"{name}" is given twice in {option}')
    return names


def _keys(arguments: argparse.Namespace) -> Keys:
    by_range = arguments.range_rows is not None or arguments.ratio is not None
    if (arguments.domain is not None) + by_range + bool(arguments.share) > 1:
        raise JobError(
            "keys are given in more than one way",
            detail="They are by --domain, or by --range and --ratio, or by --share.",
            hint="Leave all but one out.",
        )
    if arguments.share:
        return Ranged(tuple(_share(text) for text in arguments.share))
    if by_range:
        if arguments.range_rows is None:
            raise JobError("--ratio is given without --range")
        return ranged(arguments.range_rows, 1 if arguments.ratio is None else arguments.ratio)
    return Uniform(1000 if arguments.domain is None else arguments.domain)


def _share(text: str) -> Share:
    try:
        of_values, range_rows, ratio = text.split(":")
        return Share(Fraction(of_values), int(range_rows), int(ratio))
    except (ValueError, ZeroDivisionError):
        raise JobError(
            f'--share "{text}" is not a share, a range and a ratio', hint='For example "1/3:30000:4".'
        ) from None


@dataclass(frozen=True)
class _Change:
    """One `[STREAM.][COLUMN.]setting=number` of a shift; None stands for all."""

    stream: str | None
    column: str | None
    setting: str
    number: float


@dataclass(frozen=True)
class _Shift:
    after: timedelta
    changes: tuple[_Change, ...]


def _shift(text: str, streams: list[str], columns: list[str]) -> _Shift:
    after, colon, changes = text.partition(":")
    if not colon:
        raise JobError(f'--shift "{text}" has no ":"', hint='For example "60 seconds:domain=1000,rate=500".')
    return _Shift(
        parse_duration(after.strip(), "time of --shift"),
        tuple(_change(part.strip(), streams, columns) for part in changes.split(",")),
    )


def _change(text: str, streams: list[str], columns: list[str]) -> _Change:
    path, _, number = text.partition("=")
    *scopes, setting = path.strip().split(".")
    if setting not in SETTINGS:
        raise JobError(
            f'--shift cannot change "{setting}"',
            detail=f"It changes {', '.join(SETTINGS)}.",
            hint=did_you_mean(setting, SETTINGS),
        )
    stream = scopes.pop(0) if scopes and scopes[0] in streams else None
    column = scopes.pop(0) if scopes and scopes[0] in columns else None
    if scopes or (column and setting == "rate"):
        raise JobError(
            f'"{path}" in --shift names nothing',
            detail=f"The streams are {', '.join(streams)}; the key columns are {', '.join(columns)}.",
        )
    try:
        return _Change(stream, column, setting, float(number) if setting == "rate" else int(number))
    except ValueError:
        raise JobError(f'"{number}" in --shift is not a number', hint='For example "domain=1000".') from None


def _phases(stream: str, keys: dict[str, Keys], shifts: list[_Shift]) -> tuple[Phase, ...]:
    """The phases of one stream; `keys` holds its columns' values as of the phase before, and is brought up to date."""
    phases: list[Phase] = []
    for shift in shifts:
        mine = [change for change in shift.changes if change.stream in (None, stream)]
        changed = {}
        for column, values in keys.items():
            settings = {c.setting: int(c.number) for c in mine if c.setting != "rate" and c.column in (None, column)}
            if settings:
                changed[column] = _changed_keys(values, settings)
        keys |= changed
        rates = [change.number for change in mine if change.setting == "rate"]
        phase = Phase(shift.after, rates[-1] if rates else None, tuple(KeyColumn(c, v) for c, v in changed.items()))
        if phases and phases[-1].after == phase.after:
            phases[-1] = _together(phases[-1], phase)
        elif mine:
            phases.append(phase)
    return tuple(phases)


def _changed_keys(values: Keys, settings: dict[str, int]) -> Keys:
    if "domain" in settings:
        if len(settings) > 1:
            raise JobError("--shift gives both a domain and a range or ratio for one column")
        return Uniform(settings["domain"])
    before = values.shares[0] if isinstance(values, Ranged) and len(values.shares) == 1 else None
    if "range" not in settings and before is None:
        raise JobError("--shift gives a ratio, but the keys have no single range before", hint="Give a range as well.")
    range_rows = settings["range"] if before is None else settings.get("range", before.range_rows)
    return ranged(range_rows, settings.get("ratio", before.ratio if before else 1))


def _together(first: Phase, second: Phase) -> Phase:
    keys = {column.name: column for column in (*first.keys, *second.keys)}
    return replace(second, rate=second.rate or first.rate, keys=tuple(keys.values()))


class _FileProgress:
    def __init__(self, progress: Progress, files: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=files)

    def advance(self, path: str) -> None:
        self._progress.update(self._task, advance=1, description=path)


@contextmanager
def _progress(files: int) -> Iterator[_FileProgress]:
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield _FileProgress(progress, files)


def _print_summary(name: str, rows: int, files: int, file_format: str, folder: Path, schema: pa.Schema) -> None:
    # Not rich: the schema is there to be copied, so it must not be wrapped.
    out = sys.stdout
    out.write(f"{name}: {rows:,} rows in {files} {file_format} file{'s' if files != 1 else ''} under {folder}\n")
    out.write(f'  schema = "{schema_text(schema)}"\n')
    out.write('  time_unit = "us"\n')
