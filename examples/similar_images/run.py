"""What has moved past three cameras: frames that look alike, from left to right within some seconds.

Each camera takes a picture of what comes by: some things pass all three cameras, others turn round. Frames are pixels
with noise, so nothing is equal; two frames show the same thing if their pixels differ little on average, which is a
Python function over all of them. It is the query of the experiments in [Wang09], on generated pictures. What can be
done once for each frame (to bring its bytes to numbers, less their mean brightness) is declared as `prepare`.

The answer is computed a second time, plainly, from all frames at once, and the two are compared; it is also told how
many of the things that did move were found.

    python examples/similar_images/run.py [--things 60] [--slots 2]
"""

import argparse
import itertools
import sys
import time
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import watersmeet as wm

WIDTH, HEIGHT = 16, 12
VALUES = WIDTH * HEIGHT * 3  # red, green and blue of each pixel
ALIKE = 12.0  # how much a value may differ on average, of 256; noise makes 7 of it, another thing 60
SECOND = 1_000_000
WINDOW = 10 * SECOND
QUERY = """
SELECT l.id AS left_frame, m.id AS middle_frame, r.id AS right_frame
FROM left_camera l [RANGE 10 SECONDS], middle_camera m [RANGE 10 SECONDS], right_camera r [RANGE 10 SECONDS]
WHERE l.ts < m.ts AND m.ts < r.ts AND alike(l.frame, m.frame) AND alike(m.frame, r.frame)
"""
CAMERAS = ("left_camera", "middle_camera", "right_camera")
SCHEMA = pa.schema([("id", pa.int64()), ("frame", pa.binary()), ("ts", pa.int64())])
PIXELS = pa.list_(pa.float32(), VALUES)

Values = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Frame:
    id: int
    thing: int
    frame: bytes
    ts: int


def draw(things: int, seed: int = 7) -> dict[str, list[Frame]]:
    """The frames of each camera, in order of time. A third of the things pass all cameras from left to right."""
    random = np.random.default_rng(seed)
    pictures = random.integers(20, 236, (things, VALUES))
    seen: dict[str, list[Frame]] = {camera: [] for camera in CAMERAS}
    for thing in range(things):
        at = thing * SECOND + int(random.integers(0, SECOND))
        passed = [CAMERAS, CAMERAS[:2], CAMERAS[::-1]][thing % 3]
        for camera in passed:
            noisy = pictures[thing] + random.normal(0, 6, VALUES)
            pixels = np.clip(noisy + random.integers(-10, 11), 0, 255).astype(np.uint8)
            seen[camera].append(Frame(len(seen[camera]), thing, pixels.tobytes(), at))
            at += int(random.integers(SECOND // 2, 3 * SECOND))
    return {camera: sorted(frames, key=lambda frame: frame.ts) for camera, frames in seen.items()}


def batches(frames: list[Frame]) -> list[pa.RecordBatch]:
    """A batch for each second of the cameras' clock."""
    last = max(frame.ts for frame in frames) // SECOND + 4
    return [
        pa.RecordBatch.from_pylist(
            [{"id": f.id, "frame": f.frame, "ts": f.ts} for f in frames if f.ts // SECOND == second], schema=SCHEMA
        )
        for second in range(last)
    ]


def pixels_of(frames: pa.Array) -> Values:
    """The pixels of frames as rows of numbers, less the mean of each frame: light comes and goes."""
    pixels = np.frombuffer(b"".join(frames.to_pylist()), np.uint8).reshape(-1, VALUES).astype(np.float32)
    return pixels - pixels.mean(axis=1, keepdims=True)


@wm.predicate(prepare=pixels_of, prepared_type=PIXELS, symmetric=True)
def alike(first: pa.Array, second: pa.Array) -> npt.NDArray[np.bool_]:
    left, right = (np.asarray(each.flatten()).reshape(-1, VALUES) for each in (first, second))
    return np.asarray(np.abs(left - right).mean(axis=1) < ALIKE)


def plainly(seen: dict[str, list[Frame]]) -> Counter[tuple[int, ...]]:
    """The same answer, three frames after the other, from all of them at once."""
    pixels = {id(f): pixels_of(pa.array([f.frame]))[0] for frames in seen.values() for f in frames}

    def looks_like(first: Frame, second: Frame) -> bool:
        return bool(np.abs(pixels[id(first)] - pixels[id(second)]).mean() < ALIKE)

    left, middle, right = (seen[camera] for camera in CAMERAS)
    pairs = [(a, b) for a, b in itertools.product(left, middle) if a.ts < b.ts and looks_like(a, b)]
    return Counter(
        (a.id, b.id, c.id)
        for (a, b), c in itertools.product(pairs, right)
        if b.ts < c.ts and c.ts - a.ts < WINDOW and looks_like(b, c)
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="what has moved past three cameras")
    parser.add_argument("--things", type=int, default=60, help="that come by, one a second")
    parser.add_argument("--slots", type=int, default=2)
    args = parser.parse_args(arguments)
    seen = draw(args.things)
    streams = {camera: batches(frames) for camera, frames in seen.items()}
    began = time.perf_counter()
    query = wm.sql(QUERY, streams=streams, lateness="5 seconds", functions={"alike": alike})
    answer = query.run(slots=args.slots)
    seconds = time.perf_counter() - began
    found = Counter(zip(*(column.to_pylist() for column in answer.columns), strict=True))
    thing_of = {camera: {frame.id: frame.thing for frame in frames} for camera, frames in seen.items()}
    moved = {
        thing_of[CAMERAS[0]][ids[0]]
        for ids in found
        if len({thing_of[camera][i] for camera, i in zip(CAMERAS, ids, strict=True)}) == 1
    }
    frames = sum(map(len, seen.values()))
    print(f"{frames:,} frames, {found.total():,} ways from left to right, {seconds:.1f} seconds")
    print(f"{len(moved)} of the {len(range(0, args.things, 3))} things that went from left to right were found")
    right = found == plainly(seen) and len(moved) == len(range(0, args.things, 3))
    print("a plain computation gives the same" if right else "A PLAIN COMPUTATION GIVES ANOTHER ANSWER")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
