"""The types of settings as Python arguments. `tools/write_settings.py` writes it from the declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict


class SettingsBesidePlan(TypedDict, total=False):
    """All settings of a run but its plan."""

    slots: int
    """The number of tasks for each stage and batch."""
    groups: int
    """The number of parts of the key space, the unit that is spilled and moved."""
    memory: int | str | None
    """The budget for active state, all slots together."""
    slot_memory: int | str | None
    """The budget for the active state of each slot; a spill takes from the slot that is over."""
    slot_weights: Sequence[float] | None
    """How strong each slot is, for `balance = "time"`."""
    cores: float | None
    """How many cores the chosen plan may be estimated to need."""
    max_batch_rows: int | str | None
    """The most rows that a batch takes of each stream."""
    max_batch_bytes: int | str | None
    """The most bytes that a batch takes of each stream."""
    output_mode: str
    """What results are: rows that stay (`append`), or the groups that a batch has changed (`update`)."""
    ring: str
    """How a join without an equality is spread over slots."""
    ring_segment: str | timedelta | None
    """With `ring = "atr"`, how long the segments of the master are."""
    ring_copies: int | None
    """With `ring = "ctr"`, how often each row is kept."""
    max_candidates: int | None
    """How many pairs a task may compare in a batch where no equality says which."""
    spill: str
    """Which groups go cold when the state outgrows `memory`."""
    spill_at: float
    """The share of `memory` at which a spill begins."""
    spill_share: float | None
    """The share of the active state that one spill takes."""
    merge: str
    """When cold groups are merged."""
    smoothing: str
    """How the recent figures of groups are kept."""
    force: Sequence[Mapping[str, Any]] | None
    """Steps that are forced at a batch, for tests and experiments."""
    replan: str
    """When the plan is looked at again while the query runs, and changed if that pays."""
    replan_every: int
    """The number of batches from one look at the plan to the next."""
    replan_threshold: float
    """The share by which a figure must have changed."""
    migrate: str
    """How a plan is changed."""
    replan_quota: float
    """The share of the time between two looks that a search for a better plan may take."""
    replan_scope: str
    """Which groups get a better plan: those of the whole query together, or those of each slot."""
    balance: str
    """What is moved from slot to slot while the query runs."""
    balance_threshold: float
    """Slots are out of balance if the least loaded one has less than this share of the most loaded one."""
    balance_every: int
    """The number of batches between two looks, and after a move before the next."""
    allocate: str
    """Where joins run when a checkpoint is new."""
    balance_span: str | timedelta | None
    """The least time from one move to the next, beside `balance_every`."""
    balance_least: int | str | None
    """How much the most loaded slot holds at least before memory is levelled."""
    balance_rates: float
    """With `active-disk`, a slot spills for another one that gives this many times as many results a group."""
    balance_by: str
    """How some groups come to another plan than others, where nobody names a way."""
    scale: str
    """How many slots there are while the query runs."""
    scale_slots: Sequence[int]
    """The fewest and the most slots; `slots` lies between them."""
    scale_seconds: float | None
    """The seconds that a batch may take."""
    ring_slots: int | str
    """How many of the slots a join without an equality (a *ring*) lies over when a checkpoint is new."""
    ring_adapt: str
    """How that number, and the rows of a ring in each slot, change while the query runs."""
    ring_relocate: str
    """How a ring comes to another length: at once, or a little with each batch."""
    ring_seconds: float | None
    """With `ring_adapt = "auto"`, the seconds that a batch may take."""


class Settings(SettingsBesidePlan, total=False):
    """All settings of a run."""

    plan: str
    """The shape of the plan that a run begins with."""
