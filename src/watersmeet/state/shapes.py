"""The plan that a manifest runs: of the tracks that answer, each for its groups, laid out as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from watersmeet.model.routing import Groups, intersect_ranges, subtract_ranges, union_ranges
from watersmeet.plan.layout import lay_out_spec
from watersmeet.plan.layout.shapes import unite_shapes
from watersmeet.plan.physical import PhysicalPlan
from watersmeet.plan.query import Query
from watersmeet.state.manifest import Manifest, Track


@dataclass(frozen=True)
class Shape:
    """A plan of its own, of some groups; None: of all."""

    plan: PhysicalPlan
    within: Groups | None


def shapes_of(query: Query, manifest: Manifest) -> tuple[Shape, ...]:
    """The plans of the tracks that answer, each by itself."""
    return tuple(Shape(lay_out_spec(query, track.spec), track.within) for track in manifest.shapes)


def plan_of(query: Query, manifest: Manifest) -> PhysicalPlan:
    """What runs: one plan of all of them."""
    shapes = shapes_of(query, manifest)
    if len(shapes) == 1:
        return shapes[0].plan
    return unite_shapes([(shape.plan, shape.within or ()) for shape in shapes])


def shared_out(shapes: Sequence[Shape], within: Groups | None) -> list[Shape]:
    """What groups that are to change, None for all of them, have of each shape; less those that have nothing of one."""
    if within is None:
        return list(shapes)
    found = (
        replace(shape, within=within if shape.within is None else intersect_ranges(shape.within, within))
        for shape in shapes
    )
    return [shape for shape in found if shape.within]


def with_shape(tracks: Sequence[Track], new: Track, groups: int) -> tuple[Track, ...]:
    """The tracks that answer when a new one does, within its groups of so many; the others have what is left.

    One that has the same spec as the new one becomes a part of it.
    """
    if new.within is None:
        return (new,)
    everything = ((0, groups),)
    rest = [
        replace(track, within=subtract_ranges(track.within or everything, new.within))
        for track in tracks
        if track.spec != new.spec
    ]
    same = [group for track in tracks if track.spec == new.spec for group in track.within or everything]
    united = replace(new, within=union_ranges((*new.within, *same)))
    left = [track for track in rest if track.within]
    return (*left, united) if left else (replace(united, within=None),)
