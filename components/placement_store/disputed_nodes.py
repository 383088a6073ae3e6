"""Nodes over which agents and the store disagree: claims for them are refused although their agents had seen all that changed.

Where others came first, the log tells of it after the claim's view, and the next try knows. Where nothing has happened since
the view, agent and store judge the same state by other rules, or the agent's copy of it is wrong: whatever the reason is, the
agent would choose the node again and again. A node that is refused so some times within a while is closed for a while, which
its agents are told like of any closure, and operators see.

source    Nomad: nodes whose plans are rejected again and again within a window become ineligible (spec/protean-parsync.md §3.2)
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
"""The closure that a region has for them."""
REASON = (
    f"claims that should fit were refused {DISPUTES_MAX} times in {DISPUTE_SPAN // SECOND} s; "
    f"it opens again after {DISPUTE_HOLD // SECOND} s"
)
LONG_ENOUGH = "it was closed for long enough"


class NodesDisputed(Note, frozen=True):
    """A claim was refused on these nodes, and its view was as new as they are; or a revision's."""

    nodes: tuple[int, ...]
    claim: ClaimId
    """Or the name of one try of a revision."""


class Refused(Struct, frozen=True):
    """What was refused, and where."""

    claim: ClaimId
    view_sequence: int
    nodes: tuple[int, ...]

    @classmethod
    def of(cls, claim: Claim, nodes: tuple[int, ...]) -> "Refused":
        """A claim. One over victims disputes nothing: what these would leave is not what its agent saw free."""
        return cls(claim.claim, claim.view.sequence, () if claim.victims else nodes)

    @classmethod
    def revision(cls, asked: ReviseClaim, nodes: tuple[int, ...]) -> "Refused":
        """A revision; nobody chose the nodes of one without an agent."""
        name = f"{asked.workload}.{asked.epoch}.{asked.agent}.r{asked.revision}.{asked.tries}"
        return cls(ClaimId(name), asked.view_sequence, nodes if asked.agent else ())


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
        # When they open again, what was counted before is too old to count: the hold is longer than the span.
        self.opens_at = after(Instant(min(one.at for one in closure.each.values())), DISPUTE_HOLD)

    def with_them(
        self,
        decision: Decision,
        refused: Refused,
        image: RegionImage,
        sequence: int,
        now: Instant,
    ) -> Decision:
        """What refuses a claim or a revision, with what follows from it for those nodes of which its view was new.

        sequence    of the region's log, as `image` shows it: who claims to have seen more was not told so by this log
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
        count = sum(row.nodes for row in image.hardware.rows.values())
        left = max(1, count // QUARANTINE_SHARE) - (len(known.each) if known is not None else 0)
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
