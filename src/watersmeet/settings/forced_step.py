"""What a user forces before a batch: an entry of `[[adapt.force]]`. `policies/force_steps.py` takes such steps."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from watersmeet.errors import JobError, did_you_mean
from watersmeet.model.ids import Label
from watersmeet.model.routing import GroupRange, Groups, union_ranges
from watersmeet.settings.kinds import Kind, Place, expect
from watersmeet.settings.replan import BY, check_by
from watersmeet.settings.words import AUTO

LabelledGroup = tuple[Label, int]  # a group as people name it, such as J1:17
# Some groups of an operator or of a partitioning, None for all of them, and the slot that they go to, as in J1:17->1,
# J1:0-99->1, J1:*->1 and k0:17->1.
LabelledMove = tuple[Label, GroupRange | None, int]
# A group, the slots that it is spread over, and the input that is dealt, as in J1:17->0,1 dealing A.
LabelledSpread = tuple[Label, int, tuple[int, ...], str]
_NAMES = {"type": "array", "items": {"type": "string"}}
_COUNT = {"type": "integer", "minimum": 1}
# The keys of an entry, each with what it may hold as JSON Schema.
STEP_SCHEMA: Mapping[str, Mapping[str, Any]] = {
    "at_batch": {"type": "integer", "minimum": 0},
    "cut": _NAMES,
    "plan": {"type": "string"},
    "by": {"type": "string", "enum": list(BY)},
    "groups": {"type": "string"},
    "slots": _COUNT,
    "ring": _COUNT,
    "move": _NAMES,
    "spread": _NAMES,
    "draw_together": _NAMES,
    "spill": _NAMES,
    "spill_share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "merge": _NAMES,
}
STEP_KEYS = tuple(STEP_SCHEMA)
OF_THE_PLAN = ("by", "groups")  # that say more of "plan", and nothing without it


@dataclass(frozen=True)
class ForcedStep:
    """Cuts, another plan or placement, spills and merges that take place before batch `at_batch`, or in it.

    Cuts come first, then the plan, then the number of slots, then how many of them a ring lies over: the groups to
    move, to spread, to spill and to merge are those that there are after all of that. Groups are moved before any is
    spread or drawn together.
    """

    at_batch: int
    spill: tuple[LabelledGroup, ...] = ()
    spill_share: float | None = None
    merge: tuple[LabelledGroup, ...] = ()
    cut: tuple[LabelledGroup, ...] = ()
    plan: str | None = None
    by: str = AUTO  # the way to that plan
    slots: int | None = None
    move: tuple[LabelledMove, ...] = ()
    spread: tuple[LabelledSpread, ...] = ()
    draw_together: tuple[LabelledGroup, ...] = ()
    groups: Groups | None = None  # that are to have that plan; None: all
    ring: int | None = None

    @property
    def named(self) -> tuple[LabelledGroup, ...]:
        """The groups that it spreads, draws together, spills and merges."""
        spread = ((label, group) for label, group, _, _ in self.spread)
        return (*spread, *self.draw_together, *self.spill, *self.merge)


def parse_step(data: Mapping[str, Any]) -> ForcedStep:
    """An entry of `[[adapt.force]]`.

    >>> step = parse_step({"at_batch": 5, "spill": ["J1:17", "J2:3"], "move": ["J1:17->1"]})
    >>> step.at_batch, step.spill, step.move
    (5, (('J1', 17), ('J2', 3)), (('J1', (17, 18), 1),))
    """
    for key in data:
        if key not in STEP_KEYS:
            raise JobError(
                f'unknown key "{key}" in [[adapt.force]]',
                detail=f"Its keys are {', '.join(STEP_KEYS)}.",
                hint=did_you_mean(key, STEP_KEYS),
            )
    batch = data.get("at_batch")
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 0:
        raise JobError("an entry of [[adapt.force]] has no batch", detail=f'"at_batch" is {batch!r}; the first is 0.')
    share = data.get("spill_share")
    if share is not None and (isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1):
        raise JobError(f'"spill_share" in [[adapt.force]] is {share!r}', detail="It is a share: above 0, at most 1.")
    if not data.keys() - {"at_batch", *OF_THE_PLAN}:
        forcing = [key for key in STEP_KEYS if key not in ("at_batch", *OF_THE_PLAN)]
        raise JobError(
            f"the entry of [[adapt.force]] for batch {batch} forces nothing",
            hint=f"Give it one or more of {', '.join(forcing)}.",
        )
    plan, by = data.get("plan"), data.get("by", AUTO)
    if plan is not None and not isinstance(plan, str):
        raise JobError(f'"plan" in [[adapt.force]] is {plan!r}', detail='It is text such as "((A B) C)" or "mjoin".')
    if plan is None and "by" in data:
        raise JobError('"by" in [[adapt.force]] goes with "plan"', detail="It says how that plan is come to.")
    if plan is None and "groups" in data:
        raise JobError('"groups" in [[adapt.force]] goes with "plan"', detail="They are those that get that plan.")
    if not isinstance(by, str):
        raise JobError(f'"by" in [[adapt.force]] is {by!r}', detail=f"It is one of {', '.join(BY)}.")
    check_by(by)
    slots, ring = data.get("slots"), data.get("ring")
    if not _is_count(slots):
        raise JobError(f'"slots" in [[adapt.force]] is {slots!r}', detail="There is at least one slot.")
    if not _is_count(ring):
        raise JobError(
            f'"ring" in [[adapt.force]] is {ring!r}', detail="It is the number of slots that a ring lies over, from 1."
        )
    return ForcedStep(
        batch,
        _groups(data.get("spill", []), "spill"),
        None if share is None else float(share),
        _groups(data.get("merge", []), "merge"),
        _groups(data.get("cut", []), "cut"),
        plan,
        by,
        slots,
        _moves(data.get("move", [])),
        _spreads(data.get("spread", [])),
        _groups(data.get("draw_together", []), "draw_together"),
        parse_groups(data["groups"], '"groups" in [[adapt.force]]') if "groups" in data else None,
        ring,
    )


def _is_count(value: Any) -> bool:
    """Whether it is a number from 1, or not given."""
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)


def parse_groups(value: Any, where: str) -> Groups:
    """Groups as people write them.

    >>> parse_groups("0-99, 120", "groups")
    ((0, 100), (120, 121))
    """
    words = value.split(",") if isinstance(value, str) else []
    found = [re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", word) for word in words]
    ranges = [(int(match[1]), int(match[2] or match[1]) + 1) for match in found if match is not None]
    if not found or None in found or any(low >= high for low, high in ranges):
        raise JobError(
            f"{where} is {value!r}",
            detail="It is text with numbers of groups, the first of which is 0, or ranges of them.",
            hint='For example "0-99" or "3, 7, 20-24".',
        )
    return union_ranges(ranges)


def _groups(values: Any, key: str) -> tuple[LabelledGroup, ...]:
    if not isinstance(values, list):
        raise JobError(f'"{key}" in [[adapt.force]] is {values!r}', detail='It is a list such as ["J1:17", "J2:3"].')
    return tuple(_group(value, key) for value in values)


def _group(value: Any, key: str) -> LabelledGroup:
    match = re.fullmatch(r"\s*(\w+)\s*:\s*(\d+)\s*", value) if isinstance(value, str) else None
    if match is None:
        raise JobError(
            f'"{key}" in [[adapt.force]] names {value!r}',
            detail="A group is an operator, a colon and a number.",
            hint='For example "J1:17"; `watersmeet explain` shows the operators.',
        )
    return Label(match[1]), int(match[2])


def _moves(values: Any) -> tuple[LabelledMove, ...]:
    if not isinstance(values, list):
        raise JobError(f'"move" in [[adapt.force]] is {values!r}', detail='It is a list such as ["J1:17->1"].')
    return tuple(_move(value) for value in values)


def _move(value: Any) -> LabelledMove:
    """A move as people write it.

    >>> _move("J1:0-99->1"), _move("k0+k1 : * -> 0")
    (('J1', (0, 100), 1), ('k0+k1', None, 0))
    """
    which = r"(?:(\d+)(?:\s*-\s*(\d+))?|\*)"
    match = re.fullmatch(rf"\s*([\w+]+)\s*:\s*{which}\s*->\s*(\d+)\s*", value) if isinstance(value, str) else None
    if match is None:
        raise JobError(
            f'"move" in [[adapt.force]] names {value!r}',
            detail="A move is an operator or a key, a colon and a group, a range of them or a star for all, then an "
            "arrow and the number of a slot.",
            hint='For example "J1:17->1", for slot 1; the first is 0. Others are "J1:0-99->1", "J1:*->1", "k0:17->1".',
        )
    name, first, last, slot = match.groups()
    if first is None:
        return Label(name), None, int(slot)
    groups = int(first), int(last or first) + 1
    if groups[0] >= groups[1]:
        raise JobError(f'"move" in [[adapt.force]] names {value!r}', detail="The range ends before it begins.")
    return Label(name), groups, int(slot)


def _spreads(values: Any) -> tuple[LabelledSpread, ...]:
    if not isinstance(values, list):
        detail = 'It is a list such as ["J1:17->0,1 dealing A"].'
        raise JobError(f'"spread" in [[adapt.force]] is {values!r}', detail=detail)
    return tuple(_spread(value) for value in values)


def _spread(value: Any) -> LabelledSpread:
    """
    >>> _spread("J1:17->0,1 dealing A")
    ('J1', 17, (0, 1), 'A')
    """
    pattern = r"\s*(\w+)\s*:\s*(\d+)\s*->\s*(\d+(?:\s*,\s*\d+)*)\s+dealing\s+(\S.*?)\s*"
    match = re.fullmatch(pattern, value) if isinstance(value, str) else None
    slots = tuple(map(int, match[3].split(","))) if match else ()
    if match is None or len(set(slots)) < max(2, len(slots)):
        raise JobError(
            f'"spread" in [[adapt.force]] names {value!r}',
            detail="A spread is an operator, a colon and a group, then an arrow and the numbers of two slots or more, "
            'each once, then "dealing" and the input whose rows are dealt out.',
            hint='For example "J1:17->0,1 dealing A", for slots 0 and 1.',
        )
    return Label(match[1]), int(match[2]), slots, match[4]


class Steps(Kind[tuple[ForcedStep, ...]]):
    """Entries of `[[adapt.force]]`: a list of sections, as text in TOML."""

    python: ClassVar[str] = "Sequence[Mapping[str, Any]]"

    def read(self, value: Any, place: Place) -> tuple[ForcedStep, ...]:
        entries = value if isinstance(value, tuple) else expect(value, (list,), place)
        for entry in entries:
            if not isinstance(entry, Mapping):
                raise JobError(
                    f'"{place.name}"{place.where} is not a list of sections',
                    hint='Begin each entry with [[adapt.force]]; elsewhere it is a dict such as {"at_batch": 5, ..}.',
                )
        return tuple(parse_step(entry) for entry in entries)

    def read_option(self, value: Any, place: Place) -> tuple[ForcedStep, ...]:
        if not isinstance(value, str):
            return self.read(value, place)
        try:
            return self.read(tomllib.loads(f"{place.name} = {value}")[place.name], place)
        except tomllib.TOMLDecodeError:
            raise JobError(
                f"{place.name} {value!r} cannot be read",
                detail="It is a list of sections, as a job file has it.",
                hint='For example [{at_batch = 5, spill = ["J1:17"]}], or a list of dicts.',
            ) from None

    def schema(self) -> dict[str, Any]:
        step = {
            "type": "object",
            "properties": STEP_SCHEMA,
            "required": ["at_batch"],
            "additionalProperties": False,
        }
        return {"type": "array", "items": step}
