"""What a region's image remembers of ill health: which nodes failed what started on them, and when workers were lost.

Bounded: a few entries for each, forgotten once they are old. All instants are the log's own.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from core.events.region import AttemptEnded
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, after
from core.nouns.limits import BLACK_HOLE_KEPT_MAX, BLACK_HOLE_SOON, BLACK_HOLE_SPAN, FLAP_SPAN, FLAPS_KEPT_MAX
from core.nouns.workload import EndCause


class Round(Struct):
    """Failures on one node, soon after a start, that may have one cause.

    A node that dies takes all work with it that had just started there: all of it was granted before the first failure. Repeated
    failures of one workload alone are taken for the workload's own fault. A node that fails all its work fails round after round.
    """

    at: int
    """When the first of them failed."""
    since: int
    """When the last of them was granted its room."""
    ran: int
    """Nanoseconds from the start of the one that lived longest; 0: none started."""
    count: int = 1
    workloads: list[WorkloadId] = field(default_factory=list)
    """Two of them at most: that is enough to tell whether it was one alone."""


class Failures(Struct):
    """Failures by node."""

    by_node: dict[int, list[Round]] = field(default_factory=dict)
    """The node of the oldest newest round comes first."""

    def of(self, node: int) -> list[Round]:
        """A node's failures, oldest first."""
        return self.by_node.get(node, [])

    def add(self, nodes: Iterable[int], workload: WorkloadId, *, at: int, since: int, ran: int) -> None:
        """Something that was granted room at `since` failed on these nodes."""
        for node in nodes:
            rounds = [one for one in self.by_node.pop(node, ()) if not _is_old(one, at)]
            newest = rounds[-1] if rounds else None
            if newest is None or (since >= newest.at and newest.workloads != [workload]):
                rounds.append(Round(at, since, ran, workloads=[workload]))
            else:
                _join(newest, workload, since, ran)
            self.by_node[node] = rounds[-BLACK_HOLE_KEPT_MAX:]
        self._forget_old(at)

    def judge(
        self, ended: AttemptEnded, nodes: Sequence[int], granted_at: int, started_at: int, at: int
    ) -> None:
        """Note what the end of an attempt says of the nodes that it was on."""
        ran = at - started_at if started_at else 0
        is_soon = ran <= BLACK_HOLE_SOON
        failed = ended.failed_nodes if ended.cause.accuses_node else ()
        if failed and is_soon:
            self.add(failed, ended.workload, at=at, since=granted_at, ran=ran)
        if self.by_node and (not is_soon or ended.cause is EndCause.COMPLETED):
            self.refute([node for node in nodes if node not in failed], granted_at)

    def refute(self, nodes: Iterable[int], since: int) -> None:
        """Something that was granted room there at `since` ran well: what failed of earlier grants says nothing any more."""
        for node in nodes:
            known = self.by_node.get(node)
            if known is not None:
                known[:] = [one for one in known if one.since > since]
                if not known:
                    del self.by_node[node]

    def forget(self, nodes: Iterable[int]) -> None:
        """These nodes start from nothing."""
        for node in nodes:
            self.by_node.pop(node, None)

    def _forget_old(self, at: int) -> None:
        while self.by_node:
            node, known = next(iter(self.by_node.items()))
            if not _is_old(known[-1], at):
                return
            del self.by_node[node]


def losses_with(losses: list[int], at: int) -> list[int]:
    """A worker's losses and one more: those within the span in which they count as flapping."""
    return [*(was for was in losses if after(Instant(was), FLAP_SPAN) > at), at][-FLAPS_KEPT_MAX:]


def _join(one: Round, workload: WorkloadId, since: int, ran: int) -> None:
    one.count += 1
    one.since, one.ran = max(one.since, since), max(one.ran, ran)
    if workload not in one.workloads and len(one.workloads) < 2:
        one.workloads.append(workload)


def _is_old(one: Round, at: int) -> bool:
    return after(Instant(one.at), BLACK_HOLE_SPAN) <= at
