"""Names and numbers that must not be mixed up, each a type of its own. As text and integers they are plain JSON.

States and operators are named by content: by what they hold or join, never by their place in a plan. `Label` (`J1`) is
what people read and write; only a plan says which operator it stands for.
"""

from __future__ import annotations

from typing import NewType

Alias = NewType("Alias", str)  # an input of the query
StateName = NewType("StateName", str)  # what a join keeps of one input, by content
OperatorName = NewType("OperatorName", str)  # a join, by content
Label = NewType("Label", str)  # a join, by its place in a plan: J1, J2 ..
Partitioning = NewType("Partitioning", str)  # the key classes that rows are hashed on, such as "k0" or "k0+k2"
SegmentId = NewType("SegmentId", str)
Generation = NewType("Generation", int)
DeliveryId = NewType("DeliveryId", int)  # what `foreachBatch` is given; only ever grows

GroupKey = tuple[OperatorName, int]  # an operator, and the number of a group of its partitioning

NO_SEGMENT = SegmentId("")
FIRST_DELIVERY = DeliveryId(0)

LIVE = Generation(-1)  # of expired rows that went cold with the generation that new rows still enter
UNITED = Generation(0)  # that a merge of all closed ones has made; those that spills close are numbered from 1
