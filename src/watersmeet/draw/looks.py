"""How pictures of plans look: lengths, colours and styles of text."""

from __future__ import annotations

from watersmeet.draw.svg import Style

# Lengths are in pixels. Sizes were settled by looking at pictures of 2 to 12 streams.
MARGIN = 28.0
LEAST_WIDTH = 640.0
GAP = 22.0  # between two inputs of a join
PAD = 14.0  # inside a card
HALO = 9.0  # the tint of the stage round a card
DRUM_WIDTH, DRUM_HEIGHT, DRUM_TILT = 112.0, 62.0, 6.0
DRUM_GAP = 10.0
COLUMN = 124.0  # the least width of an input
MOST_CARD = 380.0  # a card grows to this for the sake of its text; inputs may make it wider
MOST_STREAM = 200.0
NECK = 96.0  # of the tint between two cards of one stage
RESULTS_HEIGHT = 42.0
PIPE_ROOM = 54.0  # under a card, for the label with the rate
EXCHANGE_ROOM = 26.0  # and for that of an exchange
MOST_CHECKS, MOST_PROBE_LINES, MOST_WHY_LINES = 5, 4, 8

FAINT, RULE = "#5c6b7a", "#b8c4cf"
WATER_DARK = "#1c5a88"
STAGES = (  # tint and ink of each stage, over and over
    ("#f3ecdd", "#7a5a10"),
    ("#e4f1e4", "#2d6e3a"),
    ("#efe6f5", "#6a3d92"),
    ("#fbe6e2", "#a03a2a"),
    ("#dff0ef", "#17696b"),
    ("#e9e9ee", "#4c5566"),
)
MANY_STAGES = "#e9edf1"  # round a join that runs in several

TITLE = Style(16, bold=True)
PLAIN = Style(11.5, fill=FAINT)
NAME = Style(13, bold=True)
KEY = Style(11, mono=True)
CHECK = Style(10, fill=FAINT, mono=True)
SMALL = Style(10, fill=FAINT)
RATE = Style(10.5, fill=WATER_DARK)
AMOUNT = Style(11.5, fill=WATER_DARK, bold=True)
STATE_KEY = Style(9, fill=FAINT, mono=True)


def tint(stage: int) -> str:
    return STAGES[stage % len(STAGES)][0]


def ink(stage: int) -> str:
    return STAGES[stage % len(STAGES)][1]
