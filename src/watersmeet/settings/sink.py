"""The section `[sink]`: where results go, and late rows if a folder is given for them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from watersmeet.plan.output_mode import APPEND, OUTPUT_MODES
from watersmeet.settings.declaration import Surface, setting
from watersmeet.settings.kinds import Duration, Folder, OneOf, Whole

PARQUET, NOOP = "parquet", "noop"
SINK_FORMATS = (PARQUET, NOOP)
REFUSE = "refuse"
EXISTING = (REFUSE, APPEND)  # what to do about results of another checkpoint in the output; the first is the default

_RETURNED = {Surface.PYTHON: "The results are what it returns."}


@dataclass(frozen=True)
class SinkSection:
    """`[sink]`."""

    format: str = setting(
        OneOf(SINK_FORMATS),
        PARQUET,
        "The form of the results.",
        more="`parquet`, or `noop`, which discards them (for measurements).",
        elsewhere={Surface.SPARK: 'Use .format("parquet").', **_RETURNED},
    )
    path: str | None = setting(
        Folder(),
        None,
        "The folder for the results.",
        more='Example: `"out"`.',
        unset="required for `parquet`",
        elsewhere=_RETURNED,
    )
    late: str | None = setting(
        Folder(),
        None,
        "A folder for late rows and rows that are ahead.",
        more='Example: `"late"`. Without it they are only counted.',
        unset="none",
        option="latePath",
        elsewhere={Surface.PYTHON: "Late rows are counted, in the events that report gets."},
    )
    existing: str = setting(
        OneOf(EXISTING),
        REFUSE,
        "What to do if these folders hold results, or late rows, that are not those of this checkpoint.",
        more="Those of another checkpoint, or of this one from a time that it knows nothing of (it was restored, or "
        "has lost its last versions): `refuse`, or `append` to them.",
        elsewhere=_RETURNED,
    )
    max_rows_per_file: int | None = setting(
        Whole(),
        None,
        "Longer results of a task are cut into several files.",
        unset="unlimited",
        elsewhere=_RETURNED,
    )
    deliver_every: timedelta | None = setting(
        Duration(),
        None,
        "Results of several batches are gathered, and delivered as one file, so often.",
        more='Example: `"1 minute"`.',
        unset="each batch at once",
        elsewhere=_RETURNED,
    )
    mode: str = setting(
        OneOf(OUTPUT_MODES),
        APPEND,
        "What results are: rows that stay (`append`), or the groups that a batch has changed (`update`).",
        more="The last row of a group is the one that holds. A query has one of the two, and the other is refused: "
        "[groups without windows](query-language.md#groups) are `update`. Files of later deliveries hold (`-dN-` in "
        "their names, which grows).",
        argument="output_mode",
        elsewhere={Surface.SPARK: 'Use .outputMode("update").'},
    )
