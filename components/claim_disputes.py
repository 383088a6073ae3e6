"""Nodes over which agents and the store disagree: claims for them are refused although their agents had seen all that changed.

Where others came first, the log tells of it after the claim's view, and the next try knows. Where nothing has happened since
the view, agent and store judge the same state by other rules, or the agent's copy of it is wrong: whatever the reason is, the
agent would choose the node again and again. A node that is refused so some times within a while is closed for a while, which
its agents are told like of any closure, and operators see.

source    Nomad: nodes whose plans are rejected again and again within a window become ineligible (spec/protean-parsync.md §3.2)
"""

from collections.abc import Iterable

from core.component import Decision
from core.events.control import NodesClosed, NodesOpened
from core.fact import Event, Note
from core.images.capacity import Capacity
from core.images.region import Hardware
from core.nouns.ids import ClaimId
from core.nouns.instant import SECOND, Instant, after
from core.nouns.limits import (
    DISPUTE_HOLD,
    DISPUTE_SPAN,
    DISPUTED_KEPT_MAX,
    DISPUTES_MAX,
    QUARANTINE_SHARE,
)
from core.nouns.maintenance import ClosureKind
from core.nouns.placement import Claim, runs_of

DISPUTE = "dispute"
"""The closure that a region has for them."""
REASON = (
    f"claims that should fit were refused {DISPUTES_MAX} times in {DISPUTE_SPAN // SECOND} s; "
    f"it opens again after {DISPUTE_HOLD // SECOND} s"
)
LONG_ENOUGH = "it was closed for long enough"


class NodesDisputed(Note, frozen=True):
    """A claim was refused on these nodes, and its view was as new as they are."""

    nodes: tuple[int, ...]
    claim: ClaimId


class Disputes:
    """When claims were refused so, by node; and when the first node that was closed for it opens again."""

    def __init__(self) -> None:
        self.by_node: dict[int, dict[ClaimId, Instant]] = {}
        """The newest on each, the node disputed longest ago first. A claim that is said again is one claim."""
        self.opens_at: Instant | None = None

    def hear(self, note: NodesDisputed, at: Instant) -> None:
        """Once more."""
        for node in note.nodes:
            claims = self.by_node.pop(node, {})
            claims.setdefault(note.claim, at)
            while len(claims) > DISPUTES_MAX:
                del claims[next(iter(claims))]
            self.by_node[node] = claims
        while len(self.by_node) > DISPUTED_KEPT_MAX:
            del self.by_node[next(iter(self.by_node))]

    def index(self, capacity: Capacity) -> None:
        """What is closed has changed, or is seen for the first time."""
        closure = capacity.closures.get(DISPUTE)
        if closure is None:
            self.opens_at = None
            return
        self.opens_at = after(Instant(min(one.at for one in closure.each.values())), DISPUTE_HOLD)
        for node in closure.each:
            self.by_node.pop(node, None)  # Once it is open again it is counted anew.

    def with_them(
        self,
        decision: Decision,
        claim: Claim,
        nodes: Iterable[int],
        capacity: Capacity,
        hardware: Hardware,
        now: Instant,
    ) -> Decision:
        """A claim's refusal on these nodes, with what follows from it for those of which its view was new.

        A claim over victims says nothing: what these would leave is not what its agent saw free.
        """
        sequence = claim.view.sequence
        seen = [] if claim.victims else [node for node in nodes if capacity.changed[node] <= sequence]
        seen = [node for node in seen if capacity.is_open(node)]
        if not seen:
            return decision
        since = now - DISPUTE_SPAN
        guilty = [node for node in seen if self._others(node, claim.claim, since) + 1 >= DISPUTES_MAX]
        events: list[Event | Note] = [NodesDisputed(tuple(seen), claim.claim)]
        known = capacity.closures.get(DISPUTE)
        there = sum(row.nodes for row in hardware.rows.values())
        left = max(1, there // QUARANTINE_SHARE) - (len(known.each) if known is not None else 0)
        if guilty and left > 0:
            # If many seem to be at fault, it is rather who looks at them.
            events.append(NodesClosed(DISPUTE, ClosureKind.DISPUTED, runs_of(guilty[:left]), REASON))
        return Decision((*decision.events, *events), decision.messages)

    def _others(self, node: int, claim: ClaimId, since: int) -> int:
        """How many other claims were refused there since then."""
        return sum(other != claim and at > since for other, at in self.by_node.get(node, {}).items())

    def reopened(self, capacity: Capacity, now: Instant) -> Decision | None:
        """Nodes that were closed for so long open again, in one fact."""
        if self.opens_at is None or self.opens_at > now:
            return None
        each = capacity.closures[DISPUTE].each
        nodes = [node for node, one in each.items() if after(Instant(one.at), DISPUTE_HOLD) <= now]
        opened = NodesOpened(DISPUTE, ClosureKind.DISPUTED, runs_of(nodes), LONG_ENOUGH)
        return Decision(events=(opened,))
