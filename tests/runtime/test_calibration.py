"""Cost constants of the machine, measured."""

from __future__ import annotations

from watersmeet.runtime.calibration import measure_costs


def test_constants_are_what_a_machine_of_our_day_does() -> None:
    costs = measure_costs()
    for name in ("insert", "probe", "compare", "join", "send"):
        assert 1e-9 < getattr(costs, name) < 20e-6, name
    assert costs.insert > costs.compare
