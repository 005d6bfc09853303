"""Groups over a three-way join: the group-by on top of the joins, pushed below them, and Spark's own.

python -m benchmarks.grouped [--spark] [--panes N] [--seconds N] [--results N] [--repeat N] [--json FILE]
"""
