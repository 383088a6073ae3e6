"""What a crash may not do, counted from the logs alone: room given twice, workloads lost, and a log that is not its state.

It shares nothing with the plane's invariants and auditor (core/invariants/consistency.py) but the facts: whoever holds what is added up
anew from grants and ends, and where a workload is in its life from the queue's facts about it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from core.events.control import ClaimRevised, DomainLost
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadSubmitted,
)
from core.events.region import AttemptEnded, ClaimGranted, NodesJoined, NodesLost, NodesReturned
from core.fact import Fact
from core.images import Image, empty_image
from core.nouns.ids import LogName, WorkloadId
from core.nouns.placement import Claim


class Holder:
    """Who holds which GPU milli of one region, by its grants and their ends."""

    def __init__(self) -> None:
        self.total: dict[int, int] = {}
        self.held: Counter[int] = Counter()
        self.lost: dict[int, None] = {}
        self.granted: dict[tuple[WorkloadId, int], Claim] = {}
        """Those that have not ended."""
        self.grants = 0
        self.twice: list[str] = []
        """Grants of capacity that was held already, or to a workload that had its grant."""
        self._milli_seconds = 0.0
        self._seen_at = 0

    def take(self, fact: Fact) -> None:
        """One fact, in the order of the log."""
        self._milli_seconds += sum(self.held.values()) * (fact.at - self._seen_at)
        self._seen_at = fact.at
        match fact.event:
            case NodesJoined(inventory=inventory):
                for group in inventory.groups:
                    self.total |= dict.fromkeys(group.numbers(), group.total.gpu_milli)
            case NodesLost(nodes=nodes):
                self.lost |= dict.fromkeys(nodes)
            case NodesReturned(nodes=nodes):
                for node in nodes:
                    self.lost.pop(node, None)
            case ClaimGranted(workload=workload, epoch=epoch, claim=claim):
                self._grant((workload, epoch), claim, fact.sequence)
            case AttemptEnded(workload=workload, epoch=epoch):
                ended = self.granted.pop((workload, epoch), None)
                if ended is not None:
                    self.held.subtract(needed(ended))
            case ClaimRevised() | DomainLost():
                raise AssertionError(f"{fact.log} {fact.sequence}: no task moves here, and no zone is lost")

    def milli_seconds(self) -> float:
        """GPU milli that were held, added up over seconds."""
        return self._milli_seconds / 1e9

    def _grant(self, key: tuple[WorkloadId, int], claim: Claim, sequence: int) -> None:
        workload, epoch = key
        self.grants += 1
        before = sorted(other for name, other in self.granted if name == workload)
        if before:
            self.twice.append(
                f"{sequence}: {workload}.{epoch} was granted while {workload}.{before[0]} had its room"
            )
        need = needed(claim)
        if key not in self.granted:
            self.held.update(need)
        self.granted[key] = claim
        over = [
            node for node in sorted(need) if node in self.lost or self.held[node] > self.total.get(node, 0)
        ]
        if over and not before:
            self.twice.append(f"{sequence}: {workload}.{epoch} was given what node {over[0]} does not have")


def needed(claim: Claim) -> Counter[int]:
    """GPU milli that a claim holds, by node."""
    found: Counter[int] = Counter()
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
            found[node] += tasks * job.need.gpu_milli
    return found


def holder_of(facts: Iterable[Fact]) -> Holder:
    """Capacity that workloads hold, as a region's log says."""
    holder = Holder()
    for fact in facts:
        holder.take(fact)
    return holder


def lost_workloads(
    accepted: Sequence[WorkloadId], queue: Iterable[Fact], holders: Iterable[Holder]
) -> dict[WorkloadId, str]:
    """Of the workloads that users were told were accepted, those of which the logs do not say one end, with what they say.

    Everything has had time to end: whoever has not is lost, and so is who ended twice, went on after its end, or holds room
    for ever.
    """
    ends: Counter[WorkloadId] = Counter()
    found: dict[WorkloadId, str] = {}
    known: dict[WorkloadId, None] = {}
    for fact in queue:
        match fact.event:
            case WorkloadSubmitted(workload=workload):
                if workload in known:
                    found.setdefault(workload, f"recorded again at {fact.sequence}")
                known[workload] = None
            case AttemptClosed(workload=workload, phase=phase) if phase.is_terminal:
                ends[workload] += 1
            case WorkloadCancelled(workload=workload):
                ends[workload] += 1
            case WorkloadAwarded(workload=workload) | WorkloadBound(workload=workload):
                if ends[workload]:
                    found.setdefault(workload, f"went on at {fact.sequence} after its end")
            case AwardReturned(workload=workload) | AttemptClosed(workload=workload):
                if ends[workload]:
                    found.setdefault(workload, f"waits again at {fact.sequence} after its end")
    for workload in dict.fromkeys([*accepted, *known]):
        if workload not in known:
            found.setdefault(workload, "accepted, and no log has it")
        elif ends[workload] != 1:
            found.setdefault(workload, f"ended {ends[workload]} times")
    for workload, count in Counter(accepted).items():
        if count > 1:
            found.setdefault(workload, f"the answer to {count} submissions")
    for holder in holders:
        for workload, epoch in holder.granted:
            found.setdefault(workload, f"attempt {epoch} still holds its room")
    return found


class Replayed:
    """A log folded from its first fact on, without any snapshot."""

    def __init__(self, log: LogName) -> None:
        self.image: Image = empty_image(log)
        self.sequence = 0

    def fold(self, facts: Iterable[Fact]) -> None:
        """All of these, which are the next ones."""
        for fact in facts:
            assert fact.sequence == self.sequence + 1, (fact.sequence, self.sequence)
            self.image.fold(fact)
            self.sequence = fact.sequence

    def differs(self, live: Image) -> bool:
        """Whether somebody's image, which is folded as far, is another one in any of the sections that it has."""
        return _encoded(self.image, live.sections) != _encoded(live, live.sections)


def _encoded(image: Image, sections: Mapping[str, object]) -> bytes:
    return image.encode(tuple(sections))
