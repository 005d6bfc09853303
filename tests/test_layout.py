"""The layout of the package: folders import those above them, Spark stays in its corner, and few read the clock.

Imports count wherever they stand, in a function or under TYPE_CHECKING too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "watersmeet"

# Each imports those that stand before it and never one after it, as the table in docs/architecture.md lists them.
ORDER = (
    "secrets.py",
    "errors.py",
    "faults.py",
    "model/",
    "plan/",
    "optimize/",
    "draw/",  # after optimize: it shows what plans cost
    "kernel/",
    "lang/",  # after kernel: constants are worked out as rows would be
    "state/",
    "settings/",
    "adapt/",
    "references.py",
    "config.py",
    "start/",
    "generate/",
    "run/",
    "runtime/",
    "api.py",
    "demo/",
    "cli/",
)
DOORS = ("__init__.py", "__main__.py")  # what `import watersmeet` and `python -m watersmeet` open; nobody imports them
OUTSIDE = ("benchmarks", "chaos", "experiments", "tests")

# The loop works with what is in `runtime/`, and the two transports, which lie there too, hand it batches. So these two
# folders know each other, but the loop knows no transport, and nothing but the transports knows the loop.
TRANSPORTS = ("runtime/local/", "runtime/spark/")
SPARK = "runtime/spark/"
# The clock is read at the edge, and `now` handed down. `generate` stamps files with the time at which it was called.
CLOCK = ("runtime/", "cli/generate.py")
CLOCK_READS = {
    *(f"time.{name}" for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time")),
    *(f"time.{name}_ns" for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time")),
    *(f"time.{name}" for name in ("gmtime", "localtime", "ctime")),
    *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
    "datetime.date.today",
}

FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def place(file: str) -> str:
    """The entry of `ORDER` that a file of the package belongs to.

    >>> place("runtime/spark/run.py"), place("api.py")
    ('runtime/', 'api.py')
    """
    head, slash, _ = file.partition("/")
    return head + slash


def parse(file: str) -> ast.Module:
    return ast.parse((PACKAGE / file).read_text(encoding="utf-8"))


def imports(tree: ast.Module) -> Iterator[str]:
    """The full name of everything that a module imports.

    >>> list(imports(ast.parse("import os.path as p; from a.b import c, d")))
    ['os.path', 'a.b.c', 'a.b.d']
    """
    return (name for name, _ in _bindings(tree))


def clock_reads(tree: ast.Module) -> set[str]:
    """How a module reads the clock, by full names.

    >>> sorted(clock_reads(ast.parse("import time as t; from datetime import datetime as d; t.time(); d.now()")))
    ['datetime.datetime.now', 'time.time']
    >>> sorted(clock_reads(ast.parse("from time import monotonic; f(clock=monotonic)")))
    ['time.monotonic']
    >>> clock_reads(ast.parse("import time; time.sleep(1); clock.now()"))
    set()
    """
    known = {bound: name for name, bound in _bindings(tree)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            head, dot, rest = ast.unparse(node).partition(".")
            found.add(known.get(head, "") + dot + rest)
    return found & CLOCK_READS


def _bindings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What is imported, and the name that the module calls it by."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, alias.asname or alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, "imports are absolute here"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", alias.asname or alias.name


def imported_places(tree: ast.Module) -> set[str]:
    """The entries of `ORDER` that a module imports from.

    >>> sorted(imported_places(ast.parse("from watersmeet import faults; import watersmeet.plan.tree; import os")))
    ['faults.py', 'plan/']
    """
    names = [name.split(".") for name in imports(tree)]
    parts = {name[1] if len(name) > 1 else "__init__" for name in names if name[0] == "watersmeet"}
    return {f"{part}/" if (PACKAGE / part).is_dir() else f"{part}.py" for part in parts}


def test_everything_has_its_place_in_the_order() -> None:
    assert {place(file) for file in FILES} == {*ORDER, *DOORS}


def test_the_table_of_folders_is_in_that_order() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split("## The folders")[1].split("\n## ")[0]
    first_cells = re.findall(r"^\| (`[^|]*) \|", section, flags=re.MULTILINE)
    assert re.findall(r"`([^`]+)`", " ".join(first_cells)) == list(ORDER)


@pytest.mark.parametrize("entry", ORDER)
def test_nothing_imports_what_stands_after_it(entry: str) -> None:
    allowed = set(ORDER[: ORDER.index(entry) + 1]) | ({"runtime/"} if entry == "run/" else set())
    wrong = {
        file: sorted(imported_places(parse(file)) - allowed)
        for file in FILES
        if place(file) == entry and imported_places(parse(file)) - allowed
    }
    assert not wrong


def test_the_loop_and_the_transports_meet_in_one_direction() -> None:
    transports = tuple(f"watersmeet.{folder[:-1].replace('/', '.')}" for folder in TRANSPORTS)
    loop = [file for file in FILES if file.startswith("run/")]
    assert not [file for file in loop if any(name.startswith(transports) for name in imports(parse(file)))]
    others = [file for file in FILES if file.startswith("runtime/") and not file.startswith(TRANSPORTS)]
    assert not [file for file in others if "run/" in imported_places(parse(file))]


def test_the_package_needs_nothing_beside_it() -> None:
    wrong = [(file, name) for file in FILES for name in imports(parse(file)) if name.split(".")[0] in OUTSIDE]
    assert not wrong


def test_spark_is_imported_in_its_corner_alone() -> None:
    importing = {file for file in FILES for name in imports(parse(file)) if name.split(".")[0] in ("pyspark", "py4j")}
    assert importing
    assert not {file for file in importing if not file.startswith(SPARK)}


def test_the_clock_is_read_at_the_edge_alone() -> None:
    reading = {file: clock_reads(parse(file)) for file in FILES if clock_reads(parse(file))}
    assert reading
    assert not {file: reads for file, reads in reading.items() if not file.startswith(CLOCK)}
