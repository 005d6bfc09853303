"""Delivery of results, and what a run remembers of it.

A committed batch stays listed as undelivered until its delivery is known, however many commits follow. It is marked as
delivered with the next commit, whatever that commit is for, or when the run ends. If the run dies in between, the next
run finds what may not have been delivered and delivers it again, the oldest first, before anything else. The files wait
for as long as the delivery is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from watersmeet import faults
from watersmeet.model.ids import DeliveryId
from watersmeet.run.steps import Deliver, Gather, Taken, take
from watersmeet.runtime.gathering import Gatherer
from watersmeet.state.files import Folder
from watersmeet.state.manifest import Delivery

if TYPE_CHECKING:
    from watersmeet.run.session import Session

DeliverFiles = Callable[[Delivery], Sequence[Folder] | None]  # the folders, if any, that received files


@dataclass
class Deliveries:
    """How results are delivered, and which deliveries this run has made or holds back."""

    deliver: DeliverFiles
    gatherer: Gatherer | None = None
    delivered: dict[DeliveryId, Delivery] = field(default_factory=dict)  # since the last commit
    waiting_since: dict[DeliveryId, float] = field(default_factory=dict)  # committed by this run, may be gathered

    def note_committed(self, delivery: DeliveryId, now: float) -> None:
        """Hold back what was just committed, if results are gathered."""
        if self.gatherer is not None:
            self.waiting_since[delivery] = now

    def pending(self, undelivered: Iterable[Delivery]) -> list[Delivery]:
        """Return the deliveries that this run has not made yet."""
        return [entry for entry in undelivered if entry.id not in self.delivered]

    def forget_delivered(self) -> list[str]:
        """Return the files of deliveries that a commit has just marked: nobody will deliver them again."""
        files = [name for entry in self.delivered.values() for name in (*entry.results, *entry.late_files)]
        self.delivered = {}
        return files


@take.register(Gather)
def _(step: Gather, session: Session[Any]) -> Taken:
    deliveries, checkpoint = session.deliveries, session.checkpoint
    gatherer, waiting = deliveries.gatherer, deliveries.waiting_since
    due = [entry for entry in session.manifest.undelivered if entry.id in waiting]
    if gatherer is None or not due:
        return Taken()
    waited = session.clock.now() - waiting[due[0].id]
    if step.at_once or waited >= gatherer.every.total_seconds():
        checkpoint.check_held()
        if len(due) > 1 and (gathered := gatherer.gather(due, session.manifest)) is not None:
            checkpoint.sync_first(gatherer.files_of(gathered))
            faults.reach("before-gather")
            session.commit([gathered])
            faults.reach("after-gather")
            gatherer.discard(due, gathered)
        deliveries.waiting_since = {}
    return Taken()


@take.register(Deliver)
def _(step: Deliver, session: Session[Any]) -> Taken:
    deliveries = session.deliveries
    for delivery in deliveries.pending(session.manifest.undelivered):
        if delivery.id not in deliveries.waiting_since:
            session.checkpoint.check_held()
            folders = deliveries.deliver(delivery) or ()
            session.checkpoint.sync_first(dict.fromkeys(folders, ()))  # before it is marked as delivered
            deliveries.delivered[delivery.id] = delivery
    return Taken()
