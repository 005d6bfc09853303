"""Options of a query on Spark: `option("slots", 4)`, in camel case as in PySpark or named as in a job file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watersmeet.errors import JobError, did_you_mean
from watersmeet.settings.declaration import Setting, Surface
from watersmeet.settings.every import ADAPT, OF_A_RUN
from watersmeet.settings.kinds import Place, plain

OPTIONS: Mapping[str, tuple[str, Setting]] = {
    setting.camel: (section, setting) for section, setting in OF_A_RUN.values() if setting.on(Surface.SPARK)
}
_BY_ANY_NAME = {
    **{setting.name.lower(): name for name, (_, setting) in OPTIONS.items()},
    **{name.lower(): name for name in OPTIONS},
}


def option_name(key: str) -> str:
    """The option that a user means.

    >>> option_name("SLOTMEMORY"), option_name("slot_memory")
    ('slotMemory', 'slotMemory')
    """
    if (name := _BY_ANY_NAME.get(key.lower())) is not None:
        return name
    elsewhere = {
        name.lower(): setting.elsewhere[Surface.SPARK]
        for _, setting in OF_A_RUN.values()
        if not setting.on(Surface.SPARK)
        for name in (setting.name, setting.camel)
    }
    raise JobError(
        f'unknown option "{key}"',
        detail=f"Options are {', '.join(OPTIONS)}.",
        hint=elsewhere.get(key.lower()) or did_you_mean(key, OPTIONS),
    )


def read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the names of settings, from options by their own names."""
    found = {}
    for name, given in options.items():
        section, setting = OPTIONS[name]
        value = setting.kind.read_option(plain(given), Place(name))
        if value is not None and section != ADAPT:  # whose settings check themselves
            setting.kind.check(value, name)
        found[setting.name] = value
    return found
