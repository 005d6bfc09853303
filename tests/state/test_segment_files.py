"""Segment files: what is written is read; anything else than what was written is told, with the file's name."""

from __future__ import annotations

import json
import os
import weakref
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import CheckpointError, ResourceError
from watersmeet.kernel.indexed import Indexed
from watersmeet.kernel.rows import concat, take
from watersmeet.kernel.window import NEVER
from watersmeet.model.bounds import Bounds
from watersmeet.model.routing import Slice
from watersmeet.model.segments import Segment
from watersmeet.plan.physical import PhysicalPlan, State
from watersmeet.state import segment_files
from watersmeet.state.files import Folder
from watersmeet.state.segment_files import FileSegments, MemorySegments, file_name


@pytest.fixture
def state(plan: PhysicalPlan) -> State:
    return next(state for state in plan.states.values() if state.aliases == ("A",))


@pytest.fixture
def rows(state: State) -> pa.RecordBatch:
    count = 50
    arrays = [pa.array(np.arange(count), field.type) for field in state.schema]
    return pa.RecordBatch.from_arrays(arrays, schema=state.schema)


@pytest.fixture
def segments(tmp_path: Path) -> FileSegments:
    folder = Folder(str(tmp_path / "segments"))
    folder.make()
    return FileSegments(folder)


@pytest.fixture
def written(segments: FileSegments, rows: pa.RecordBatch, state: State) -> Segment:
    return write(segments, rows, state, Slice(((0, 3),), Bounds(3)), 7)


def write(
    segments: FileSegments | MemorySegments,
    rows: pa.RecordBatch,
    state: State,
    slice_: Slice,
    number: int,
    cuts: int = 0,
) -> Segment:
    """A segment of these rows, written in pieces that end after each of so many rows."""
    pieces = [rows.slice(start, cuts) for start in range(0, rows.num_rows, cuts)] if cuts else [rows]
    segment = segments.write(pieces, state, slice_, number)
    assert segment is not None
    return segment


def one(pieces: tuple[Indexed, ...]) -> pa.RecordBatch:
    (piece,) = pieces
    return piece.rows


def file_of(segments: FileSegments, segment: Segment) -> Path:
    return Path(segments.folder.path(file_name(segment.id)))


def test_what_is_written_is_read(segments: FileSegments, written: Segment, rows: pa.RecordBatch, state: State) -> None:
    assert one(segments.read(written)).equals(rows)
    path = file_of(segments, written)
    assert (written.bytes, written.crc32) == (path.stat().st_size, zlib.crc32(path.read_bytes()))
    assert (written.rows, written.state, written.batch, written.written) == (50, state.name, 7, ((0, 3),))
    assert (written.min_expiry_us, written.max_expiry_us) == (10_000_000, 10_000_049)
    assert segments.names() == [path.name]


def test_any_arrow_reader_opens_it(segments: FileSegments, written: Segment, rows: pa.RecordBatch) -> None:
    with pa.ipc.open_file(file_of(segments, written)) as reader:
        assert reader.read_all().num_rows == 50
        assert json.loads(reader.schema.metadata[b"watersmeet"])["format"] == 1


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_a_segment_may_be_written_in_pieces(
    kind: str, segments: FileSegments, rows: pa.RecordBatch, state: State, written: Segment
) -> None:
    """The manifest says the same of it, and it is never in memory whole."""
    made: FileSegments | MemorySegments = segments if kind == "files" else MemorySegments()
    whole = written if kind == "files" else write(made, rows, state, Slice(((0, 3),), Bounds(3)), 7)
    segment = write(made, rows, state, Slice(((0, 3),), Bounds(3)), 7, cuts=20)
    pieces = made.read(segment)
    assert [piece.rows.num_rows for piece in pieces] == [20, 20, 10]
    assert concat([piece.rows for piece in pieces], state.schema).equals(rows)
    found = [piece.find(np.array([5, 25, 45], np.uint64))[1].tolist() for piece in pieces]
    assert found == [[5], [5], [5]], "each has a directory of its own"
    unlike = {"id", "bytes", "crc32"}
    assert {k: v for k, v in segment.to_json().items() if k not in unlike} == {
        k: v for k, v in whole.to_json().items() if k not in unlike
    }
    if kind == "files":
        with pa.ipc.open_file(file_of(segments, segment)) as reader:
            assert json.loads(reader.schema.metadata[b"watersmeet"])["format"] == 2


def test_pieces_are_written_as_they_come(segments: FileSegments, rows: pa.RecordBatch, state: State) -> None:
    alive: list[int] = []

    def pieces() -> Iterator[pa.RecordBatch]:
        for start in range(0, 50, 5):
            piece = take(rows, np.arange(start, start + 5))
            held.append(weakref.ref(piece))
            alive.append(sum(each() is not None for each in held))
            yield piece

    held: list[weakref.ref[pa.RecordBatch]] = []
    segments.write(pieces(), state, Slice(((0, 3),), Bounds(3)), 7)
    assert len(alive) == 10
    assert max(alive) <= 3


def test_no_rows_are_no_segment(segments: FileSegments, rows: pa.RecordBatch, state: State) -> None:
    assert segments.write([rows.slice(0, 0)], state, Slice(((0, 3),), Bounds(3)), 7) is None
    assert segments.names() == []


def test_rows_without_a_window_never_expire(segments: FileSegments, rows: pa.RecordBatch, state: State) -> None:
    segment = write(segments, rows, replace(state, windows=()), Slice(((0, 3),), Bounds(3)), 0)
    assert (segment.min_expiry_us, segment.max_expiry_us) == (NEVER, NEVER)


def test_two_writes_have_two_names(segments: FileSegments, rows: pa.RecordBatch, state: State) -> None:
    assert (
        write(segments, rows, state, Slice(((0, 1),), Bounds(1)), 7).id
        != write(segments, rows, state, Slice(((0, 1),), Bounds(1)), 7).id
    )


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_byte,
        lambda path: os.truncate(path, path.stat().st_size // 2),
        lambda path: os.truncate(path, 0),
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
        lambda path: path.write_text("nothing like a segment"),
    ],
    ids=["a flipped bit", "half of it", "empty", "a byte too many", "something else"],
)
def test_a_corrupt_segment_is_named(damage: Callable[[Path], Any], segments: FileSegments, written: Segment) -> None:
    path = file_of(segments, written)
    damage(path)
    with pytest.raises(ResourceError) as caught:
        segments.read(written)
    assert caught.value.primary == f'segment "{written.id}" of state "{written.state}" is corrupt'
    assert str(path) in (caught.value.detail or "")
    assert f"the manifest says {written.bytes} bytes with checksum {written.crc32:08x}" in (caught.value.detail or "")
    assert "backup" in (caught.value.hint or "")


def test_a_missing_segment_is_named(segments: FileSegments, written: Segment) -> None:
    file_of(segments, written).unlink()
    with pytest.raises(ResourceError, match="is missing") as caught:
        segments.read(written)
    assert "which the manifest lists with 50 rows" in (caught.value.detail or "")


def test_a_newer_format_is_refused(
    segments: FileSegments, rows: pa.RecordBatch, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(segment_files, "FORMAT", 3)
        segment = write(segments, rows, state, Slice(((0, 3),), Bounds(3)), 0, cuts=20)
    with pytest.raises(CheckpointError, match="was written by a newer version of watersmeet"):
        segments.read(segment)


def test_a_file_is_checked_once(segments: FileSegments, written: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    segments.read(written)
    monkeypatch.setattr(segment_files.zlib, "crc32", lambda data: pytest.fail("read the whole file again"))
    segments.read(written)


def test_a_repaired_file_is_read_though_a_cache_had_the_damaged_one(
    tmp_path: Path, rows: pa.RecordBatch, state: State
) -> None:
    folder = Folder(str(tmp_path / "segments"), str(tmp_path / "cache"))
    folder.make()
    segments = FileSegments(folder)
    written = write(segments, rows, state, Slice(((0, 3),), Bounds(3)), 0)
    path = file_of(segments, written)
    sound = path.read_bytes()
    flip_a_byte(path)
    with pytest.raises(ResourceError, match="is corrupt"):
        segments.read(written)
    path.write_bytes(sound)
    assert one(segments.read(written)).equals(rows)


def test_memory_has_the_same_face(rows: pa.RecordBatch, state: State) -> None:
    segments = MemorySegments()
    segment = write(segments, rows, state, Slice(((0, 3),), Bounds(3)), 7)
    assert one(segments.read(segment)) is rows
    assert segments.names() == [file_name(segment.id)]
    segments.delete_all([file_name(segment.id)])
    segments.delete_all([file_name(segment.id)])
    assert segments.names() == []


def test_what_is_known_of_segments_goes_with_them(tmp_path: Path, rows: pa.RecordBatch, state: State) -> None:
    """Over many batches, a process keeps checksums, open files and copies of the segments that there are."""
    folder = Folder(str(tmp_path / "segments"), str(tmp_path / "cache"), durable=False)
    folder.make()
    segments = FileSegments(folder, keep_open=True)
    known, held = len(segment_files._sound), len(segment_files.open_files._files)
    alive: list[Segment] = []
    for number in range(1_000):
        alive.append(write(segments, rows, state, Slice(((0, 2),), Bounds(2)), number))
        segments.read(alive[-1])
        if len(alive) > 3:
            segments.delete_all([file_name(alive.pop(0).file)])
    copies = [name for _, _, names in os.walk(tmp_path / "cache") for name in names if name.endswith(".arrow")]
    assert len(copies) == len(alive) == 3
    assert len(segment_files._sound) - known == 3
    assert len(segment_files.open_files._files) - held == 3
    segments.close()
    assert len(segment_files._sound) == known
