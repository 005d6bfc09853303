"""Jobs with GROUP BY over small drawn joins, and DuckDB as the judge of what they emit at every boundary."""

from __future__ import annotations

from dataclasses import dataclass

from judged_jobs import JoinCase


@dataclass(frozen=True, eq=False)
class GroupedCase(JoinCase):
    """A join whose results are grouped by a column of one stream; `slide_us` goes into the windows, if any."""

    by: str = ""
    slide_us: int = 1

    @property
    def query(self) -> str:
        window = f" [RANGE {self.window_us} MICROSECONDS SLIDE {self.slide_us} MICROSECONDS]" if self.window_us else ""
        froms = ", ".join(f"{name}{window}" for name in self.streams)
        return f"SELECT {self._outputs} FROM {froms} WHERE {self.where} GROUP BY {self.by}"

    @property
    def sql(self) -> str:
        if self.window_us is None:
            froms = ", ".join(self.streams)
            return f"SELECT {self._outputs} FROM {froms} WHERE {self.where} GROUP BY {self.by}"
        newest = f"greatest({', '.join(f'{name}.ts' for name in self.streams)})"
        expiry = f"least({', '.join(f'{name}.ts' for name in self.streams)}) + {self.window_us}"
        joined = super().sql.replace("SELECT ", f"SELECT {self.by} AS g, {newest} AS newest, {expiry} AS expiry, ", 1)
        slide = self.slide_us
        first, last = f"ceil(newest / {slide})::BIGINT * {slide}", f"floor((expiry - 1) / {slide})::BIGINT * {slide}"
        spelled = f"SELECT *, unnest(generate_series({first}, {last}, {slide})) AS t FROM ({joined})"
        return f"SELECT g, count(*), sum({self._value}), max({self._value}), t FROM ({spelled}) GROUP BY g, t"

    @property
    def _value(self) -> str:
        return self.streams[-1].lower()

    @property
    def _outputs(self) -> str:
        value = f"{self.streams[-1]}.v"
        return f"{self.by} AS g, COUNT(*) AS n, SUM({value}) AS total, MAX({value}) AS largest"
