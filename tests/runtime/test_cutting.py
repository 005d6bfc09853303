"""What a cut leaves on each side is counted in the files, for all states on the partitioning, and in no others."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.stages.small_tasks import EVEN, K0, PLAN, A, B, Task, batch, group_of, hash_of
from small_plans import manifest_of, named, state_of
from watersmeet.adapt.decisions.cut_group import CutGroup
from watersmeet.errors import ResourceError
from watersmeet.kernel.rows import hashes
from watersmeet.model.ids import Generation
from watersmeet.model.routing import Slice
from watersmeet.runtime.cutting import count_cut
from watersmeet.state.applying import apply_all
from watersmeet.state.files import Folder
from watersmeet.state.segment_files import FileSegments, count_by_group
from watersmeet.state.updates import CloseGroups

KEYS = range(80)
J1, J2 = named(PLAN, "J1"), named(PLAN, "J2")
GROUP = 5
INSIDE = sorted((key for key in KEYS if group_of(key) == GROUP), key=hash_of)
# Two keys of the group are before the cut, and the others after it, the third at its very beginning.
CUT = CutGroup(J1, GROUP, K0, hash_of(INSIDE[2]), 1, "asked for")


def test_counts_and_shares() -> None:
    task = Task()
    upper = PLAN.states[state_of(PLAN, "C")]
    whole = task.write(A, [(key, second) for key in KEYS for second in (1, 2, 3)])
    few = task.write(B, [(INSIDE[2], 1), (INSIDE[-1], 1)])
    elsewhere = task.write(B, [(key, 1) for key in KEYS if group_of(key) != GROUP])
    cold = task.write(A, [(INSIDE[0], 1)], generation=3)
    other = task.write(upper, [(key, 1) for key in KEYS])
    manifest = manifest_of(PLAN, whole, few, elsewhere, cold, other)
    states = (A.name, B.name)
    manifest = apply_all([CloseGroups(J1, states, ((0, 1), (7, 8)), Generation(4))], manifest)  # other groups of files

    found = count_cut(CUT, PLAN, manifest, task.segments)
    assert found.first == {whole.id: (6, 2), few.id: (0, 0), cold.id: (1, 1)}
    assert set(found.states) == set(states)
    assert found.shares == {J1: pytest.approx(6 / (3 * len(INSIDE) + 2))}
    after = apply_all([found], manifest)
    bounds = after.placement.of(K0).bounds
    assert len(bounds) == len(EVEN) + 1
    for segment in after.segments.values():
        held = bounds if segment.state in states else EVEN
        values = np.concatenate([hashes(piece.rows) for piece in task.segments.read(segment)])
        assert (segment.group_rows, segment.group_keys) == count_by_group(values, Slice(segment.written, held))


def test_a_group_without_rows_is_halved() -> None:
    found = count_cut(CUT, PLAN, manifest_of(PLAN), Task().segments)
    assert (found.first, found.shares) == ({}, {J1: 0.5})


def test_a_file_that_is_corrupt_is_an_error_and_no_guess(tmp_path: object) -> None:
    segments = FileSegments(Folder(str(tmp_path)))
    written = segments.write([batch(A, [(key, 1) for key in KEYS])], A, Slice(((0, len(EVEN)),), EVEN), 0)
    assert written is not None
    (path,) = Folder(str(tmp_path)).names()
    with open(Folder(str(tmp_path)).path(path), "r+b") as file:
        file.seek(600)
        file.write(b"rotten")
    with pytest.raises(ResourceError):
        count_cut(CUT, PLAN, manifest_of(PLAN, written), FileSegments(Folder(str(tmp_path))))
