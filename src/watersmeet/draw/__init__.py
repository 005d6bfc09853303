"""What draws plans for people and programs: `explain.py` as text and JSON, `picture.py` as an SVG picture.

What is particular to a kind of stage is in the file of its name, and reaches the others through `kinds.py`.
"""

from watersmeet.draw import fragment, group_by, hop  # the kinds that there are: to import one is to register it

__all__ = ["fragment", "group_by", "hop"]
