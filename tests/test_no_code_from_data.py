"""No code is loaded from data: what is read back from a checkpoint, a cache or a source is parsed, never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "watersmeet"
FILES = sorted(PACKAGE.rglob("*.py"))

LOADERS = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle", "yaml", "runpy", "imp"}
RUNS_TEXT = {"eval", "exec", "compile", "__import__"}
# Functions of modules that are fine otherwise.
RUNS_WHAT_IT_READS = {"spec_from_file_location", "load_module", "read_pickle", "allow_pickle"}
ALLOWED = {"importlib.metadata", "importlib.import_module"}  # the version; and what is imported is looked at


def suspicious(tree: ast.Module) -> Iterator[str]:
    """What in a module could run what it has read.

    >>> list(suspicious(ast.parse("import pickle; eval(x); np.load(f, allow_pickle=True); re.compile(y)")))
    ['import pickle', 'eval', 'allow_pickle']
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"import {a.name}" for a in node.names if _is_loader(a.name))
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (f"import {name}" for name in names if _is_loader(name))
        elif isinstance(node, ast.Name) and node.id in RUNS_TEXT | RUNS_WHAT_IT_READS:
            yield node.id
        elif isinstance(node, ast.Attribute) and node.attr in RUNS_WHAT_IT_READS:
            yield node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            if not all(isinstance(argument, ast.Constant) for argument in node.args):
                yield "import_module of a name that is not written there"
        elif isinstance(node, ast.keyword) and node.arg in RUNS_WHAT_IT_READS:
            yield node.arg


def _is_loader(name: str) -> bool:
    head = name.split(".")[0]
    return head in LOADERS or (head == "importlib" and not any(name.startswith(allowed) for allowed in ALLOWED))


@pytest.mark.parametrize("file", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_runs_what_it_reads(file: Path) -> None:
    assert not list(suspicious(ast.parse(file.read_text(encoding="utf-8"))))


def test_arrow_does_not_unpickle_types_that_files_name() -> None:
    """Segments are Arrow files, whose schemas may name extension types; an old kind of those was a pickle."""
    metadata = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": b"cos\nabort\n(tR."}
    schema = pa.schema([pa.field("x", pa.int64(), metadata=metadata)])
    read = pa.ipc.read_schema(schema.serialize())
    assert read.field("x").type == pa.int64()
