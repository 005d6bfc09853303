"""Writes what follows from the declarations of settings: tables in the docs, and the types of Python arguments.

    make settings

A test compares. Tables stand between two comments, such as `<!-- settings of [run] -->` and `<!-- end of settings -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from watersmeet.settings.arguments import ARGUMENTS, annotation_of
from watersmeet.settings.declaration import Setting, Surface
from watersmeet.settings.every import OF_A_RUN, SETTINGS, STREAM

ROOT = Path(__file__).parent.parent
TYPES = ROOT / "src" / "watersmeet" / "settings" / "argument_types.py"
JOB_FILE, PYTHON_API = ROOT / "docs" / "job-file.md", ROOT / "docs" / "python-api.md"
EVERYWHERE = "all settings"

_HEAD = '''"""The types of settings as Python arguments. `tools/write_settings.py` writes it from the declarations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict


class SettingsBesidePlan(TypedDict, total=False):
    """All settings of a run but its plan."""

'''


def argument_types() -> str:
    """The module with the types."""
    fields = {name: _field(name, setting) for name, setting in ARGUMENTS.items()}
    plan = fields.pop("plan")
    both = '\n\nclass Settings(SettingsBesidePlan, total=False):\n    """All settings of a run."""\n\n'
    return _HEAD + "".join(fields.values()) + both + plan


def _field(name: str, setting: Setting) -> str:
    return f'    {name}: {annotation_of(setting)}\n    """{setting.text}"""\n'


def tables() -> dict[str, str]:
    """The tables of the docs, by what stands in the comment before each."""
    names = {section: "streams.NAME" if section == STREAM else section for section in SETTINGS}
    found = {f"settings of [{name}]": _table_of_keys(SETTINGS[section]) for section, name in names.items()}
    return {**found, EVERYWHERE: _table_of_names()}


def _table_of_keys(settings: Iterable[Setting]) -> str:
    rows = (f"| `{s.name}` | {s.shown_default} | {s.text} {s.more}".rstrip() + " |" for s in settings)
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows]) + "\n"


def _table_of_names() -> str:
    head = ["| setting | option of Spark | argument of `q.run()` | default | meaning |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(_row(section, setting) for section, setting in OF_A_RUN.values())]) + "\n"


def _row(section: str, setting: Setting) -> str:
    option = f"`{setting.camel}`" if setting.on(Surface.SPARK) else setting.elsewhere[Surface.SPARK]
    argument = f"`{setting.keyword}`" if setting.on(Surface.PYTHON) else "no"
    return f"| `[{section}] {setting.name}` | {option} | {argument} | {setting.shown_default} | {setting.text} |"


def with_tables(text: str) -> str:
    """A page of the docs with its tables as they should be."""
    for name, table in tables().items():
        pattern = rf"(<!-- {re.escape(name)} -->\n).*?(\n<!-- end of settings -->)"
        text = re.sub(pattern, lambda match, table=table: f"{match[1]}\n{table}{match[2]}", text, flags=re.DOTALL)
    return text


def files() -> dict[Path, str]:
    """What each file should hold."""
    pages = {page: with_tables(page.read_text(encoding="utf-8")) for page in (JOB_FILE, PYTHON_API)}
    return {TYPES: argument_types(), **pages}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
