"""Disputed nodes: the store refuses claims on these nodes, although the claims' agents had seen every change there.

After an ordinary conflict the log has a change after the claim's view, and the next try includes the change. If no change came
after the view, agent and store judge the same state by different rules, or the agent's copy of the state is wrong; either way the
agent would choose the node again and again. A node refused in `DISPUTES_MAX` claims within `DISPUTE_SPAN` is closed for
`DISPUTE_HOLD`. Agents learn of the closure as of any other, and operators see it.

source    Nomad: nodes on which plans are rejected again and again within a window become ineligible (spec/protean-parsync.md §3.2)
"""

from msgspec import Struct

from core.component import Decision
from core.events.control import NodesClosed, NodesOpened
from core.fact import Event, Note
from core.images import RegionImage
from core.images.capacity import Capacity
from core.messages.control import ReviseClaim
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
"""Source of the one closure that a region has for disputed nodes."""
REASON = (
    f"claims that should fit were refused {DISPUTES_MAX} times in {DISPUTE_SPAN // SECOND} s; "
    f"it opens again after {DISPUTE_HOLD // SECOND} s"
)
LONG_ENOUGH = "it was closed for long enough"


class NodesDisputed(Note, frozen=True):
    """Note: a claim or a revision was refused on these nodes, although its view was no older than their rows."""

    nodes: tuple[int, ...]
    claim: ClaimId
    """The claim, or the name of one try of a revision."""


class Refused(Struct, frozen=True):
    """A refused claim or revision, and the nodes of the refusal."""

    claim: ClaimId
    view_sequence: int
    nodes: tuple[int, ...]

    @classmethod
    def of(cls, claim: Claim, nodes: tuple[int, ...]) -> "Refused":
        """Return the refusal of a claim. A claim over victims disputes no node: victims' capacity was not free in its view."""
        return cls(claim.claim, claim.view.sequence, () if claim.victims else nodes)

    @classmethod
    def revision(cls, asked: ReviseClaim, nodes: tuple[int, ...]) -> "Refused":
        """Return the refusal of a revision. Without an agent the nodes were not chosen, so such a revision disputes no node."""
        name = f"{asked.workload}.{asked.epoch}.{asked.agent}.r{asked.revision}.{asked.tries}"
        return cls(ClaimId(name), asked.view_sequence, nodes if asked.agent else ())


class Disputes:
    """Times of such refusals by node, and the time at which the first disputed node opens again."""

    def __init__(self) -> None:
        self.by_node: dict[int, dict[ClaimId, Instant]] = {}
        """Times of the newest refusals by node and claim, the node disputed longest ago first. A repeated claim counts once."""
        self.opens_at: Instant | None = None

    def hear(self, note: NodesDisputed, at: Instant) -> None:
        """Record one more refusal on each node of a note; of nodes and of refusals, only the newest are kept."""
        for node in note.nodes:
            claims = self.by_node.pop(node, {})
            claims.setdefault(note.claim, at)
            while len(claims) > DISPUTES_MAX:
                del claims[next(iter(claims))]
            self.by_node[node] = claims
        while len(self.by_node) > DISPUTED_KEPT_MAX:
            del self.by_node[next(iter(self.by_node))]

    def index(self, capacity: Capacity) -> None:
        """Compute `opens_at` from the image, after a change of the closure or a start of the store."""
        closure = capacity.closures.get(DISPUTE)
        if closure is None:
            self.opens_at = None
            return
        # Refusals before the closure are too old to count when the nodes open again: the hold is longer than the span.
        self.opens_at = after(Instant(min(one.at for one in closure.each.values())), DISPUTE_HOLD)

    def with_them(
        self,
        decision: Decision,
        refused: Refused,
        image: RegionImage,
        sequence: int,
        now: Instant,
    ) -> Decision:
        """Return the decision on a refused claim or revision, with the dispute over open nodes that its view showed as they are.

        sequence    sequence of the region's log in `image`: a newer view does not come from this log, and disputes no node
        """
        capacity, view = image.capacity, refused.view_sequence
        if view > sequence:
            return decision
        there = [node for node in refused.nodes if capacity.has_node(node)]
        seen = [node for node in there if capacity.changed[node] <= view and capacity.is_open(node)]
        if not seen:
            return decision
        since = now - DISPUTE_SPAN
        guilty = [node for node in seen if self._others(node, refused.claim, since) + 1 >= DISPUTES_MAX]
        events: list[Event | Note] = [NodesDisputed(tuple(seen), refused.claim)]
        known = capacity.closures.get(DISPUTE)
        count = image.hardware.nodes
        left = max(1, count // QUARANTINE_SHARE) - (len(known.each) if known is not None else 0)
        if guilty and left > 0:
            # One node in `QUARANTINE_SHARE` at most, but at least one: where many seem to be at fault, the agents more likely are.
            events.append(NodesClosed(DISPUTE, ClosureKind.DISPUTED, runs_of(guilty[:left]), REASON))
        return Decision((*decision.events, *events), decision.messages)

    def _others(self, node: int, claim: ClaimId, since: int) -> int:
        """Return the number of other claims refused on a node after `since`."""
        return sum(other != claim and at > since for other, at in self.by_node.get(node, {}).items())

    def reopened(self, capacity: Capacity, now: Instant) -> Decision | None:
        """Return the fact that opens all nodes disputed for at least `DISPUTE_HOLD`, once the first is due."""
        if self.opens_at is None or self.opens_at > now:
            return None
        each = capacity.closures[DISPUTE].each
        nodes = [node for node, one in each.items() if after(Instant(one.at), DISPUTE_HOLD) <= now]
        opened = NodesOpened(DISPUTE, ClosureKind.DISPUTED, runs_of(nodes), LONG_ENOUGH)
        return Decision(events=(opened,))
