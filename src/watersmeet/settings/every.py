"""All settings, in one visible place: the sections of a job file, and their settings in the order of the docs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from watersmeet.settings.adapt import AdaptSection
from watersmeet.settings.declaration import Setting, settings_in, with_values
from watersmeet.settings.run import RunSection
from watersmeet.settings.sink import SinkSection
from watersmeet.settings.stream import StatsSection, StreamSection

RUN, SINK, ADAPT, STREAM, STATS = "run", "sink", "adapt", "streams.*", "stats"
TOP, SPARK = "", "spark"

# Each section with its settings as they are by default.
SECTIONS: Mapping[str, Any] = MappingProxyType(
    {STREAM: StreamSection(), SINK: SinkSection(), RUN: RunSection(), ADAPT: AdaptSection(), STATS: StatsSection()}
)
SETTINGS: Mapping[str, tuple[Setting, ...]] = MappingProxyType(
    {name: tuple(settings_in(section)) for name, section in SECTIONS.items()}
)
# Those of a run, by name and section: they have a name each, so that --set, options and arguments need no section.
OF_A_RUN: Mapping[str, tuple[str, Setting]] = MappingProxyType(
    {found.name: (section, found) for section in (RUN, SINK, ADAPT) for found in SETTINGS[section]}
)


@dataclass(frozen=True)
class Sections:
    """The settings of a run, by section."""

    run: RunSection = RunSection()  # noqa: RUF009 - frozen
    sink: SinkSection = SinkSection()  # noqa: RUF009 - frozen
    adapt: AdaptSection = AdaptSection()  # noqa: RUF009 - frozen

    def having(self, values: Mapping[str, Any]) -> Sections:
        """With these values, by the names of settings."""
        return with_values(self, values)
