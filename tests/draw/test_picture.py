"""The picture of a plan: that it is well-formed, shows everything, and that nothing in it covers anything else."""

from __future__ import annotations

import itertools
import random
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

import pytest

from watersmeet.draw import cards as card_rows
from watersmeet.draw import sketch
from watersmeet.draw.kinds import all_joins
from watersmeet.draw.picture import draw_plan
from watersmeet.lang.binder import bind
from watersmeet.lang.types import parse_schema
from watersmeet.model.streams import Stream
from watersmeet.plan.layout import lay_out
from watersmeet.plan.physical import FromOperator, PhysicalPlan
from watersmeet.plan.tree import choose_tree

SVG = "{http://www.w3.org/2000/svg}"
NAMES = "ABCDEFGHIJKL"
COLUMNS = "x BIGINT, y BIGINT, v BIGINT, an_identifier_with_a_long_name BIGINT, ts TIMESTAMP"
ONE_KEY = "SELECT A.v, C.y FROM A [RANGE 30 MINUTES], B [RANGE 1 SECOND], C WHERE A.x = B.x AND B.x = C.x AND A.v > 3"
TWO_KEYS = (
    "SELECT A.v, C.v AS w FROM A, B [RANGE 10 SECONDS], C "
    "WHERE A.x = B.x AND B.y + 1 = C.y AND A.v < C.v AND B.v BETWEEN 1 AND 9"
)
CHAIN = "SELECT A.v FROM A, B, C, D WHERE A.x = B.x AND B.y = C.y AND C.x = D.x"
HYBRID = (
    "SELECT A.v, F.v AS w FROM A [RANGE 1 HOUR], B [RANGE 10 MINUTES], C [RANGE 5 SECONDS], D, E, F "
    "WHERE A.x = B.x AND B.x = C.x AND C.y = D.y AND D.x = E.x AND E.x = F.x AND A.v < F.v AND A.v + B.v > 10"
)
SELF_JOIN = "SELECT l.v, r.v AS w FROM A l [RANGE 1 HOUR], A r [RANGE 1 HOUR] WHERE l.x = r.x AND l.y = r.y"
ALIAS_J1 = "SELECT J1.v FROM A J1, B, C WHERE J1.x = B.x AND B.y = C.y"
MANY_CHECKS = "SELECT A.v FROM A, B WHERE A.x = B.x AND " + " AND ".join(f"A.v + {i} < B.v * {i + 2}" for i in range(9))
TWELVE = f"SELECT A.v FROM {', '.join(NAMES)} WHERE " + " AND ".join(f"A.x = {name}.x" for name in NAMES[1:])
LONG = (
    "SELECT the_first_of_two_long_aliases.v FROM A the_first_of_two_long_aliases [RANGE 1500 MILLISECONDS], "
    "B the_second_of_two_long_aliases WHERE the_first_of_two_long_aliases.an_identifier_with_a_long_name = "
    "the_second_of_two_long_aliases.an_identifier_with_a_long_name AND the_first_of_two_long_aliases.v > 1000000"
)
GROUPED = (
    "SELECT A.x % 3 AS g, COUNT(*) AS n, SUM(B.v) / COUNT(*) AS mean FROM A [RANGE 30 MINUTES SLIDE 5 MINUTES], "
    "B [RANGE 10 MINUTES] WHERE A.y = B.y GROUP BY g, B.x HAVING COUNT(*) > 1 AND B.x > 0"
)
ONE_STREAM = "SELECT COUNT(*) AS n FROM A WHERE A.v > 3"
PLANS = [
    (GROUPED, "left-deep"),
    (ONE_STREAM, "mjoin"),
    (ONE_KEY, "mjoin"),
    (ONE_KEY, "left-deep"),
    (TWO_KEYS, "left-deep"),
    (TWO_KEYS, "mjoin"),
    (CHAIN, "left-deep"),
    (CHAIN, "((A B) (C D))"),
    (CHAIN, "mjoin"),
    (CHAIN, "((A B C) D)"),
    (HYBRID, "((A B C) ((D E) F))"),
    (HYBRID, "mjoin"),
    (SELF_JOIN, "mjoin"),
    (ALIAS_J1, "left-deep"),
    (MANY_CHECKS, "left-deep"),
    (TWELVE, "mjoin"),
    (TWELVE, "left-deep"),
    (LONG, "left-deep"),
]
LONG_REASON = "because " + "the tree is one that nobody would have thought of and yet it is the best, " * 12


@dataclass(frozen=True)
class Figures:
    rate: float
    rows: float
    bytes: float


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float
    what: str = ""

    def overlaps(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def holds(self, other: Box) -> bool:
        return (
            self.left <= other.left
            and other.right <= self.right
            and self.top <= other.top
            and other.bottom <= self.bottom
        )


class AnyFlows(dict[frozenset[str], Figures]):
    """A flow for every set of streams, larger for larger sets."""

    def __missing__(self, streams: frozenset[str]) -> Figures:
        return Figures(10.0 ** len(streams) * 1.234, 98.7 * 100 ** len(streams), 4567.0 * 100 ** len(streams))


def planned(text: str, setting: str) -> PhysicalPlan:
    query = bind(text, {name: Stream(name, parse_schema(COLUMNS)) for name in NAMES})
    return lay_out(query, choose_tree(query, setting))


def drawn(
    plan: PhysicalPlan, reason: str = "because", flows: Mapping[frozenset[str], Figures] | None = None
) -> ElementTree.Element:
    return ElementTree.fromstring(draw_plan(plan, AnyFlows() if flows is None else flows, reason))


def random_plan(seed: int) -> PhysicalPlan:
    """A chain of 2 to 10 streams on random keys, with aliases of all lengths, in a random tree."""
    chance = random.Random(seed)
    count = chance.randint(2, 10)
    aliases = [f"{'sTreaMs_wIth_a_Name_'[: chance.choice([0, 1, 5, 20])]}{name}" for name in NAMES[:count]]
    keys = [chance.choice(["x", "y", "an_identifier_with_a_long_name"]) for _ in aliases]
    windows = [chance.choice(["", "[RANGE 1 SECOND]", "[RANGE 1500 MILLISECONDS]"]) for _ in aliases]
    entries = ", ".join(f"{n} {a} {w}" for n, a, w in zip(NAMES, aliases, windows, strict=False))
    conditions = [f"{a}.{key} = {b}.{key}" for (a, b), key in zip(itertools.pairwise(aliases), keys, strict=False)]
    conditions += [f"{a}.v < {b}.v" for a, b in itertools.pairwise(aliases) if chance.random() < 0.3]
    conditions += [f"{a}.v > 17" for a in aliases if chance.random() < 0.2]
    text = f"SELECT {', '.join(f'{a}.v AS {a}' for a in aliases)} FROM {entries} WHERE {' AND '.join(conditions)}"

    def tree(names: list[str]) -> str:
        if len(names) == 1:
            return names[0]
        cuts = sorted(chance.sample(range(1, len(names)), chance.randint(1, min(3, len(names) - 1))))
        parts = [names[i:j] for i, j in itertools.pairwise([0, *cuts, len(names)])]
        return f"({' '.join(map(tree, parts))})"

    return planned(text, tree(aliases))


# --- what a picture holds --------------------------------------------------------------------------------------------


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def tooltips(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}title")]


def groups(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [element for element in root.iter(f"{SVG}g") if element.get("class") == kind]


def text_box(element: ElementTree.Element) -> Box:
    """Where a text stands, if a letter is on average half as wide as high, and 0.6 where all are of the same width."""
    text, size = element.text or "", number(element, "font-size")
    average = 0.6 if "mono" in element.get("font-family", "") else 0.5
    width = size * sum(1.0 if unicodedata.east_asian_width(char) in "WF" else average for char in text)
    left = number(element, "x") - {"start": 0, "middle": width / 2, "end": width}[element.get("text-anchor", "start")]
    base = number(element, "y")
    return Box(left, base - 0.75 * size, left + width, base + 0.22 * size, text)


def rectangle(element: ElementTree.Element) -> Box:
    left, top = number(element, "x"), number(element, "y")
    return Box(left, top, left + number(element, "width"), top + number(element, "height"))


def number(element: ElementTree.Element, name: str) -> float:
    return float(element.get(name, "nan"))


def cards(root: ElementTree.Element) -> list[tuple[Box, ElementTree.Element]]:
    found = [group for kind in ("join", "stream", "results") for group in groups(root, kind)]
    return [(rectangle(group.find(f"{SVG}rect")), group) for group in found]  # type: ignore[arg-type]


def covered_texts(root: ElementTree.Element) -> list[tuple[str, str]]:
    """Pairs of texts that stand on each other."""
    boxes = [text_box(element) for element in root.iter(f"{SVG}text")]
    return [(a.what, b.what) for a, b in itertools.combinations(boxes, 2) if a.overlaps(b)]


def check_layout(root: ElementTree.Element) -> None:
    assert covered_texts(root) == []
    page = Box(0, 0, number(root, "width"), number(root, "height"))
    for element in root.iter(f"{SVG}text"):
        assert page.holds(text_box(element)), element.text
    placed = cards(root)
    assert [(a, b) for (a, _), (b, _) in itertools.combinations(placed, 2) if a.overlaps(b)] == []
    for card, group in placed:
        assert page.holds(card)
        for element in group.iter(f"{SVG}text"):
            assert card.holds(text_box(element)), element.text
    for group in groups(root, "state"):
        lid = group.find(f"{SVG}ellipse")
        assert lid is not None
        sides = number(lid, "cx") - number(lid, "rx"), number(lid, "cx") + number(lid, "rx")
        drum = Box(sides[0], number(lid, "cy") + number(lid, "ry"), sides[1], number(lid, "cy") + 56)
        assert len([card for card, _ in placed if card.holds(drum)]) == 1
        for element in group.iter(f"{SVG}text"):
            assert drum.holds(text_box(element)), element.text
    for flow in groups(root, "flow"):
        for label in flow.findall(f"{SVG}rect"):
            assert page.holds(rectangle(label))
            assert not [card for card, _ in placed if card.overlaps(rectangle(label))]
        for line in flow.findall(f"{SVG}line"):
            if line.get("x1") != line.get("x2"):
                continue
            x, ends = number(line, "x1"), sorted([number(line, "y1"), number(line, "y2")])
            pipe = Box(x - 0.1, ends[0] + 1, x + 0.1, ends[1] - 1)
            # A pipe enters the card of its join and touches no other on its way.
            assert len([card for card, _ in placed if card.overlaps(pipe)]) <= 1


# --- tests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, setting", PLANS)
def test_nothing_covers_anything(text: str, setting: str) -> None:
    check_layout(drawn(planned(text, setting), LONG_REASON))


@pytest.mark.parametrize("seed", range(40))
def test_nothing_covers_anything_in_random_trees(seed: int) -> None:
    check_layout(drawn(random_plan(seed)))


def test_these_checks_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(HYBRID, "((A B C) ((D E) F))")
    monkeypatch.setattr(sketch, "GAP", -60.0)
    assert covered_texts(drawn(plan))
    monkeypatch.setattr(sketch, "GAP", 22.0)
    monkeypatch.setattr(card_rows, "PIPE_ROOM", 10.0)
    with pytest.raises(AssertionError):
        check_layout(drawn(plan))


@pytest.mark.parametrize("text, setting", PLANS)
def test_everything_is_shown(text: str, setting: str) -> None:
    plan = planned(text, setting)
    root = drawn(plan)
    shown = texts(root) + tooltips(root)
    joins = all_joins(plan)
    inputs = [(join, entry.source) for join in joins.values() for entry in join.inputs]
    assert {join.title for join in joins.values()} == {
        line for line in texts(root) if line.endswith((" join", " group by"))
    }
    assert len(groups(root, "join")) == len(joins)
    for state in plan.states:
        assert [line for line in tooltips(root) if line.startswith(f"state {state}: ")], state
    assert len(groups(root, "state")) == len(plan.states)
    assert len(groups(root, "stream")) == len(plan.query.aliases)
    for entry in plan.query.inputs:
        assert entry.alias in shown
        assert entry.alias == entry.stream.name or f"stream {entry.stream.name}" in shown
    assert len([line for line in texts(root) if line.endswith(" rows/s")]) == len(inputs) + 1
    fed = [(join, joins[source.name]) for join, source in inputs if isinstance(source, FromOperator)]
    crossed = [join for join, below in fed if below.stages[-1] not in join.stages]
    assert len([line for line in texts(root) if line.startswith("exchange on ")]) == len(crossed)


def test_figures_are_rounded_for_people() -> None:
    plan = planned("SELECT A.v FROM A, B WHERE A.x = B.x", "left-deep")
    flows = {
        frozenset("A"): Figures(1234, 3_400_000, 56 * 2**20),
        frozenset("B"): Figures(0.25, 7, 0),
        frozenset("AB"): Figures(9.96, 0, 0),
    }
    root = drawn(plan, flows=flows)
    assert {"1.2K rows/s", "3.4M rows", "56 MB", "0.25 rows/s", "7 rows", "10 rows/s"} <= set(texts(root))
    assert "0 B" not in texts(root), "an unknown size is left out"


def test_a_pipe_is_thicker_for_more_rows() -> None:
    plan = planned("SELECT A.v FROM A, B WHERE A.x = B.x", "left-deep")
    widths = []
    for rate in (0, 1, 1000, 1e6, 1e60):
        flows = AnyFlows({frozenset("A"): Figures(rate, 1, 1)})
        first = groups(drawn(plan, flows=flows), "flow")[1]
        widths.append(number(first.find(f"{SVG}line"), "stroke-width"))  # type: ignore[arg-type]
    assert widths == sorted(set(widths))
    assert 1 <= widths[0] < widths[-1] <= 12


def test_a_routed_join_shows_its_hops_and_a_state_for_each_key() -> None:
    root = drawn(planned(CHAIN, "mjoin"))
    shown = texts(root)
    assert {"J1 routed join", "stages 0 to 2", "hop 1, stage 0", "hop 3, stage 2"} <= set(shown)
    assert "C on B.y = C.y" in shown
    kept = sorted(line for line in shown if line.startswith("by "))
    assert kept == ["by A.x", "by B.x", "by B.y", "by C.x", "by C.y", "by D.x"]


def test_keys_checks_probes_and_windows_are_written() -> None:
    shown = texts(drawn(planned(TWO_KEYS, "left-deep"), "no reason at all"))
    assert {"B.y + 1 = C.y", "checks A.v < C.v", "probes J1", "exchange on B.y + 1"} <= set(shown)
    assert {"[RANGE 10 SECONDS]", "why: no reason at all", "plan ((A B) C)", "2 stages, 1 exchange"} <= set(shown)
    assert "Rates and sizes are estimated." in shown


def test_the_source_of_the_figures_is_written() -> None:
    svg = draw_plan(planned(ONE_KEY, "mjoin"), AnyFlows(), "", source="measured")
    assert "Rates and sizes are measured." in texts(ElementTree.fromstring(svg))


def test_what_is_cut_is_whole_in_a_tooltip() -> None:
    root = drawn(planned(LONG, "left-deep"))
    key = "an_identifier_with_a_long_name"
    whole = f"the_first_of_two_long_aliases.{key} = the_second_of_two_long_aliases.{key}"
    assert whole in tooltips(root)
    assert [line for line in texts(root) if line.endswith("…") and whole.startswith(line[:-1])]


def test_many_checks_are_counted_and_listed() -> None:
    root = drawn(planned(MANY_CHECKS, "left-deep"))
    assert "and 5 more" in texts(root)
    assert [line for line in tooltips(root) if "A.v + 8" in line]


@pytest.mark.parametrize("alias", ["a<b>&\"c'", "größe", "顧客", "a -- > ]]>", "\U0001f41f"])
def test_any_name_is_escaped(alias: str) -> None:
    plan = planned(f"SELECT `{alias}`.v FROM A `{alias}`, B WHERE `{alias}`.x = B.x AND B.v <> 3", "left-deep")
    svg = draw_plan(plan, AnyFlows(), "because <b>&amp;\x00\ud800 it is")
    root = ElementTree.fromstring(svg)
    assert alias in texts(root)
    assert f"{alias}.x = B.x" in texts(root)
    assert "why: because <b>&amp;\ufffd\ufffd it is" in texts(root)
    assert svg.isascii()
    check_layout(root)


def test_it_is_self_contained() -> None:
    svg = draw_plan(planned(CHAIN, "mjoin"), AnyFlows(), "")
    root = ElementTree.fromstring(svg)
    assert svg.count("http") == 1, "the name space and no other address"
    assert not [element for element in root.iter() if element.tag.removeprefix(SVG) in ("script", "style", "image")]
    ground = root.find(f"{SVG}rect")
    assert ground is not None
    assert [ground.get(name) for name in ("width", "height", "fill")] == [
        root.get("width"),
        root.get("height"),
        "#ffffff",
    ]
