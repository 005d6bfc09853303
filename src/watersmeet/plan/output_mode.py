"""What results are to whoever reads them: rows that are added and stay (append), or newer ones of a group (update).

Joined rows, and groups at a boundary, are emitted once: append. Running totals, of groups without windows, are emitted
again whenever a batch has changed them: update, where the last row of a group is what holds. Which of the two a user
has asked for must be what the query gives, so that nobody adds up totals.
"""

from __future__ import annotations

from watersmeet.errors import JobError, OutputModeError, did_you_mean
from watersmeet.plan.query import Query

APPEND, UPDATE = "append", "update"
IN_JOB_FILE = 'mode = "update" in [sink]'
OUTPUT_MODES = (APPEND, UPDATE)


def check_output_mode(query: Query, mode: str, ask_for_update: str) -> None:
    """Refuse a mode that the results of a query do not have. `ask_for_update`: how users ask for the other one."""
    if mode not in OUTPUT_MODES:
        raise JobError(
            f'output mode "{mode}" is not supported',
            detail="Modes are append and update.",
            hint=did_you_mean(mode, OUTPUT_MODES),
        )
    totals = query.group_by is not None and query.group_by.slide_us is None
    if totals and mode == APPEND:
        raise OutputModeError(
            'groups without windows need output mode "update"',
            query.text,
            query.grouped_at,
            "A group changes for as long as rows come, and is emitted again whenever a batch has changed it.",
            f"Write {ask_for_update}, or give the streams windows, such as [RANGE 1 HOUR SLIDE 5 MINUTES].",
        )
    if not totals and mode == UPDATE:
        what = "A join" if query.group_by is None else "A query that groups over windows"
        raise JobError(
            'output mode "update" is for groups without windows',
            detail=f'{what} emits each result once, in mode "append".',
        )


def refuse_gathering(mode: str, setting: str) -> None:
    """Refuse to put results of several batches together that replace each other."""
    if mode == UPDATE:
        raise JobError(
            f'{setting} does not go together with output mode "update"',
            detail="The last row of a group is what holds, so results of several batches are not put together.",
        )
