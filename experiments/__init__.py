"""Experiments of the papers, run for real on this machine: `python -m experiments`.

One module an experiment (`plans.py`), with what they share beside it: `banded.py` makes streams for nested loops,
`parted.py` makes streams whose load lies where it is wanted, `paced.py` runs a plan at the pace of its input,
`slotted.py` does so with slots for machines,
`budgeted.py` inside a memory budget, `claims.py` sets what a paper says beside what was measured, `figures.py` draws,
and `page.py` writes what was found as one HTML page. The package never imports this folder, and what is installed does
not have it.
"""
