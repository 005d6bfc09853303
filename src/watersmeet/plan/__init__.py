"""Plans as data: the bound query, its join graph, trees, and what runs where."""

from watersmeet.plan.join_graph import JoinGraph

__all__ = ["JoinGraph"]
