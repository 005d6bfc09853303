"""What a policy is: when it is asked, which signals it needs, and what it proposes.

A policy is pure: same view, same answer. It holds settings and nothing else; what it learns is in the manifest, and a
view shows it. To add one: a class that fits the protocol, in a file of its own under `policies/`, and its place in the
tuple of `in_force.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Protocol

from watersmeet.adapt.decisions.decision import Decision
from watersmeet.adapt.outlook import Moment, Outlook, Signal
from watersmeet.model.origin import Origin


class Policy(Protocol):
    origin: ClassVar[Origin]  # that its decisions have
    moments: ClassVar[frozenset[Moment]]
    needs: ClassVar[frozenset[Signal]]  # the controller fetches, the policy does not

    def propose(self, outlook: Outlook) -> Iterable[Decision]: ...
