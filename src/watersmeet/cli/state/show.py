"""`watersmeet state show`: what one version holds. Reads manifests only; takes no lock and changes nothing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Sequence

from rich.console import Console
from rich.text import Text

from watersmeet.cli.decisions import decision_text
from watersmeet.cli.state.checkpoint import add_checkpoint, batch_text, readable_versions
from watersmeet.cli.terminal import make_table, output_console, size_text
from watersmeet.draw.explain import measured_lines
from watersmeet.errors import CheckpointError
from watersmeet.model.distinct import keys_by_group
from watersmeet.model.ids import LIVE, Partitioning
from watersmeet.model.quantities import duration_text, time_text
from watersmeet.model.routing import GroupRange, count_groups, groups_text
from watersmeet.model.segments import Segment
from watersmeet.model.time_units import MICROSECONDS, unit_name
from watersmeet.state.learned import Figures, Trial
from watersmeet.state.manifest import Manifest, StreamProgress
from watersmeet.state.query_identity import StreamIdentity


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint(parser)
    parser.add_argument("--version", type=int, help="the version to show (default: the newest)")
    parser.add_argument("--json", action="store_true", help="the manifest as JSON")
    parser.set_defaults(run=show_version)


def show_version(args: argparse.Namespace) -> int:
    manifest = _pick(readable_versions(args.checkpoint), args.version)
    if args.json:
        print(json.dumps(manifest.to_json(), indent=2))
    else:
        _show(manifest, output_console())
    return 0


def _pick(manifests: Sequence[Manifest], version: int | None) -> Manifest:
    if version is None:
        return manifests[-1]
    for manifest in manifests:
        if manifest.version == version:
            return manifest
    raise CheckpointError(
        f"version {version} cannot be read",
        detail=f"The versions that can be read are {manifests[0].version} to {manifests[-1].version}.",
    )


def _show(manifest: Manifest, console: Console) -> None:
    console.print(f"version {manifest.version}, after {batch_text(manifest)}")
    console.print(f"plan {manifest.plan}")
    console.print("query")
    console.print(Text("\n".join(f"  {line}" for line in manifest.query.text.strip().splitlines())))
    spread = _spread_rows(manifest)
    sections = (
        ("placement", ("partitioning", "slot", "groups", "which"), _slot_rows(manifest)),
        *([("spread", ("partitioning", "group", "owner", "dealt", "slots"), spread)] if spread else []),
        (
            "streams",
            ("stream", "rows", "late", "ahead", "newest time", "files", "declared as"),
            [_stream_cells(manifest, name, progress) for name, progress in manifest.streams.items()],
        ),
        ("states", ("state", "segments", "rows", "bytes", "keys", "keys in a group"), _state_rows(manifest)),
        (
            "segments",
            ("segment", "state", "rows", "bytes", "groups", "generation", "tier", "first expiry", "last expiry"),
            [_segment_cells(segment) for segment in manifest.segments.values()],
        ),
    )
    for title, columns, rows in sections:
        console.print(f"\n{title}")
        console.print(make_table(columns, rows, right=_NUMBERS) if rows else "  none")
    if manifest.measured.seconds > 0:
        console.print("\nmeasured (of event time; recent batches weigh more)")
        console.print(Text("\n".join(f"  {line}" for line in measured_lines(manifest.measured))))
    if manifest.library:
        console.print("\nplans that served well")
        console.print(Text("\n".join(_library_lines(manifest))))
    if lessons := _lesson_rows(manifest):
        console.print("\nwhat changes came to (the last of each kind)")
        columns = ("kind", "what", "at batch", "before", "expected", "found", "paid", "in vain in a row")
        console.print(make_table(columns, lessons, right=_NUMBERS))
    if manifest.decisions:
        console.print("\ndecisions")
        console.print(Text("\n".join(_decision_lines(manifest))))
    if manifest.batch is not None and manifest.last_batch >= 0:
        batch = manifest.batch
        console.print(
            f"\nlast batch {batch.number}: {batch.rows_in:,} rows in, {batch.rows_out:,} out, {batch.rows_late:,} late"
        )
    for delivery in manifest.undelivered:
        what = f"batch {delivery.batch}" + (f", round {delivery.round}" if delivery.round else "")
        files = len(delivery.results) + len(delivery.late_files)
        console.print(f"not known to be delivered: {what} ({files} files, id {delivery.id})")


_NUMBERS = (
    "rows",
    "late",
    "ahead",
    "files",
    "bytes",
    "generation",
    "slot",
    "keys",
    "keys in a group",
    "at batch",
    "in vain in a row",
)


def _slot_rows(manifest: Manifest) -> list[tuple[str, ...]]:
    """The groups of each slot, for each partitioning that has been placed or cut, and for all others."""
    placement = manifest.placement
    rows: list[tuple[str, ...]] = []
    for name in (*placement.known, ""):
        for slot in range(placement.slots):
            groups = placement.of(Partitioning(name)).owned_by(slot)
            rows.append(
                (
                    name or "all others" if placement.known else "all",
                    str(slot),
                    str(count_groups(groups)),
                    _groups_text(groups),
                )
            )
    return rows


def _spread_rows(manifest: Manifest) -> list[tuple[str, ...]]:
    """The groups that several slots work on."""
    placement = manifest.placement
    shares = [(name, share) for name in placement.spreads for share in placement.shares(name)]
    return [
        (name, str(share.group), str(share.owner), share.spread.alias, ", ".join(map(str, share.slots)))
        for name, share in shares
    ]


def _stream_cells(manifest: Manifest, name: str, progress: StreamProgress) -> tuple[str, ...]:
    stream = manifest.query.streams.get(name)
    declared = "-" if stream is None else _declared_text(stream)
    files = f"{progress.file_count:,}"
    counts = f"{progress.rows:,}", f"{progress.late:,}", f"{progress.ahead:,}"
    return name, *counts, time_text(progress.newest_us), files, declared


def _declared_text(stream: StreamIdentity) -> str:
    columns = ", ".join(f"{name} {kind}" for name, kind in stream.columns)
    lateness = f"lateness {duration_text(stream.lateness_us)}" if stream.lateness_us else "no lateness"
    unit = "" if stream.time_unit == MICROSECONDS else f" in {unit_name(stream.time_unit)}"
    return f"{columns}; time {stream.time}{unit}; {lateness}"


def _state_rows(manifest: Manifest) -> list[tuple[str, ...]]:
    states: dict[str, list[Segment]] = {}
    for segment in manifest.segments.values():
        states.setdefault(segment.state, []).append(segment)
    return [_state_cells(name, held) for name, held in sorted(states.items())]


def _state_cells(name: str, held: Sequence[Segment]) -> tuple[str, ...]:
    keys = keys_by_group(held)
    spread = f"{min(keys.values()):,.0f} to {max(keys.values()):,.0f}" if keys else "-"
    return (
        name,
        str(len(held)),
        f"{sum(segment.live_rows for segment in held):,}",
        size_text(sum(segment.live_bytes for segment in held)),
        f"{sum(keys.values()):,.0f}",
        spread,
    )


def _decision_lines(manifest: Manifest) -> list[str]:
    return [f"  version {entry.get('version', 0)}: {decision_text(entry)}" for entry in manifest.decisions]


def _lesson_rows(manifest: Manifest) -> list[tuple[str, ...]]:
    """What trials of each kind have come to, and those that are not reviewed yet."""
    reviewed = [
        (
            *_trial_cells(lesson.trial),
            figures_text(lesson.found, lesson.trial.expected),
            "yes" if lesson.paid else "no",
            str(lesson.in_vain),
        )
        for lesson in manifest.learned.lessons
    ]
    return [*reviewed, *((*_trial_cells(trial), "", "not known yet", "") for trial in manifest.learned.trials)]


def _trial_cells(trial: Trial) -> tuple[str, ...]:
    before, expected = (figures_text(figures, trial.expected) for figures in (trial.before, trial.expected))
    return trial.kind, trial.what, str(trial.at_batch), before, expected


def figures_text(figures: Figures, wanted: Collection[str]) -> str:
    """Those of the figures that something was expected of.

    >>> figures_text({"cpu": 1.25, "rows": 7.0}, ["cpu", "memory"])
    'cpu 1.25'
    """
    return ", ".join(f"{name} {figures[name]:.4g}" for name in wanted if name in figures)


def _library_lines(manifest: Manifest) -> list[str]:
    return [
        f"  {entry['plan']} at batch {entry['batch']}, for {entry['cpu']:.3g} cores, with "
        + ", ".join(f"{name} {value:.3g}" for name, value in entry["figures"].items())
        for entry in manifest.library
    ]


def _segment_cells(segment: Segment) -> tuple[str, ...]:
    return (
        segment.id,
        segment.state,
        f"{segment.live_rows:,}",
        size_text(segment.live_bytes),
        _groups_text(segment.groups),
        "live" if segment.generation == LIVE else str(segment.generation),
        segment.tier,
        time_text(segment.min_expiry_us),
        time_text(segment.max_expiry_us),
    )


def _groups_text(groups: Sequence[GroupRange]) -> str:
    """Ranges of groups, both ends included.

    >>> _groups_text([(0, 150), (160, 161)])
    '0-149, 160'
    """
    return groups_text(groups) or "none"
