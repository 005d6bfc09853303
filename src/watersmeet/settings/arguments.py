"""Settings as Python arguments: `q.run(slots=4, memory="64MB")`.

`Settings` (`argument_types.py`) has their types, for editors and type checkers. `takes_settings` gives a function that
takes `**settings` the signature and the docstring that a user at a prompt sees.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from watersmeet.errors import JobError, did_you_mean
from watersmeet.settings.declaration import Setting, Surface
from watersmeet.settings.every import OF_A_RUN
from watersmeet.settings.kinds import Place, plain

ARGUMENTS: Mapping[str, Setting] = {
    setting.keyword: setting for _, setting in OF_A_RUN.values() if setting.on(Surface.PYTHON)
}
F = TypeVar("F", bound=Callable[..., Any])


def read_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the names of settings, from arguments by theirs. None leaves a setting as it is by default."""
    return {
        _setting(name).name: _setting(name).kind.read(plain(value), Place(name))
        for name, value in given.items()
        if value is not None
    }


def _setting(name: str) -> Setting:
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    for _, setting in OF_A_RUN.values():
        if name == setting.keyword:
            raise JobError(
                f'setting "{name}" is not for {Surface.PYTHON.value}', detail=setting.elsewhere[Surface.PYTHON]
            )
    raise JobError(
        f'unknown setting "{name}"',
        detail=f"Settings are {', '.join(ARGUMENTS)}.",
        hint=did_you_mean(name, ARGUMENTS),
    )


def takes_settings(function: F) -> F:
    """Show each setting, with its default and a sentence, where users ask what `function` takes."""
    signature = inspect.signature(function)
    shown = [entry for entry in signature.parameters.values() if entry.kind is not inspect.Parameter.VAR_KEYWORD]
    added = {name: setting for name, setting in ARGUMENTS.items() if name not in signature.parameters}
    shown += [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default_of(setting), annotation=annotation_of(setting)
        )
        for name, setting in added.items()
    ]
    function.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    lines = [f"{name}: {setting.text}" for name, setting in added.items()]
    function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Settings:", "", *lines])
    return function


def default_of(setting: Setting) -> Any:
    """The default as users would give it; None where words say it."""
    return None if setting.unset else setting.kind.given(setting.default)


def annotation_of(setting: Setting) -> str:
    """The type of an argument.

    >>> annotation_of(ARGUMENTS["slots"]), annotation_of(ARGUMENTS["memory"])
    ('int', 'int | str | None')
    """
    return f"{setting.kind.python} | None" if setting.unset else setting.kind.python
