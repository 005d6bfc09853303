"""The JSON Schema of job files, for editors: keys, types, ranges, known words and what each setting means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from watersmeet.settings.declaration import Setting
from watersmeet.settings.every import ADAPT, RUN, SETTINGS, SINK, STATS, STREAM
from watersmeet.settings.run import LOCAL
from watersmeet.settings.sink import NOOP

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Text that refers to the environment, which is put in before anything is checked (`references.py`).
_REFERENCE = {"type": "string", "pattern": r"\$\{\w+\}"}
_TEXT = "string"


def job_schema() -> dict[str, Any]:
    """What a job file may hold. Some mistakes are beyond it: settings that do not go together, and unknown columns."""
    return {
        "$schema": _DIALECT,
        "title": "A job of Watersmeet",
        "type": "object",
        "properties": {
            "query": {"type": _TEXT, "description": "The query text.", "pattern": r"\S"},
            "streams": {
                "type": "object",
                "description": "A section for each stream that the query reads.",
                "minProperties": 1,
                "additionalProperties": _section(SETTINGS[STREAM], references=True),
            },
            SINK: _section(SETTINGS[SINK], references=True) | _unless("path", "format", NOOP),
            RUN: _section(SETTINGS[RUN], references=True) | _unless("checkpoint", "runtime", LOCAL),
            ADAPT: _section(SETTINGS[ADAPT]),
            STATS: _section(SETTINGS[STATS]),
            "spark": {
                "type": "object",
                "description": "Settings of Spark by their full names.",
                "properties": {"master": {"type": _TEXT, "description": "Spark's master."}},
            },
        },
        "required": ["query", "streams", SINK, RUN],
        "additionalProperties": False,
    }


def _section(settings: Iterable[Setting], references: bool = False) -> dict[str, Any]:
    settings = tuple(settings)
    properties = {setting.name: _described(setting, references) for setting in settings}
    former = {s.former: {**properties[s.name], "deprecated": True} for s in settings if s.former}
    section: dict[str, Any] = {"type": "object", "properties": {**properties, **former}, "additionalProperties": False}
    required = [setting.name for setting in settings if setting.required]
    return {**section, "required": required} if required else section


def _described(setting: Setting, references: bool) -> dict[str, Any]:
    schema = setting.kind.schema()
    if references and _restricts_text(schema):
        schema = {"anyOf": [schema, _REFERENCE]}
    shown = {} if setting.unset or setting.required else {"default": setting.kind.given(setting.default)}
    return {"description": setting.text, **shown, **schema}


def _restricts_text(schema: dict[str, Any]) -> bool:
    """Whether some texts are right and others are not."""
    known = [schema, *schema.get("anyOf", ())]
    return any(entry.get("type") == _TEXT and len(entry) > 1 for entry in known)


def _unless(needed: str, key: str, word: str) -> dict[str, Any]:
    """A key is needed, unless another one has this word."""
    return {"anyOf": [{"required": [needed]}, {"properties": {key: {"const": word}}, "required": [key]}]}
