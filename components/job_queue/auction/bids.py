"""Answers of regions to requests for capacity: bids and abstentions, for auctions and for moves."""

from collections.abc import Callable

from components.job_queue.moves import Moving
from components.job_queue.state.auctions import cycle_of, settled
from components.job_queue.state.queue_state import AbstentionHeard, BidHeard, LateAnswerHeard, QueueState
from core.component import NOTHING, Decision
from core.messages.base import Envelope, Message
from core.messages.queue import Abstention, Bid
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.reasons import Reason

HEARD_OF_BIDS: tuple[type[Message], ...] = (Bid, Abstention)


class RegionAnswers:
    """The queue's deciders for regions' answers."""

    def __init__(self, moving: Moving) -> None:
        self._moving = moving
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            Bid: self._bid,
            Abstention: self._abstention,
        }

    def _bid(self, state: QueueState, envelope: Envelope) -> Decision:
        bid = envelope.message
        assert isinstance(bid, Bid)
        if bid.region in state.image.regions.abandoned:
            return Decision(messages=(settled(bid, has_won=False, reason=Reason.REGION_ABANDONED),))
        of_move = self._moving.bid(state, bid, envelope.at)
        if of_move is not None:
            return of_move
        auction = state.auctions.open.get(bid.workload)
        if auction is None or auction.auction != bid.auction or bid.region not in auction.asked:
            late = _late(state, bid, envelope.at)
            return Decision(late, (settled(bid, has_won=False),))  # Too late: the capacity is not needed.
        first = auction.bids.get(bid.region)
        if first is not None:
            # The bus repeated the request, and another agent answered too: its capacity is not needed.
            return NOTHING if first.agent == bid.agent else Decision(messages=(settled(bid, has_won=False),))
        return Decision(events=(BidHeard(bid),))

    def _abstention(self, state: QueueState, envelope: Envelope) -> Decision:
        said = envelope.message
        assert isinstance(said, Abstention)
        of_move = self._moving.abstention(state, said, envelope.at)
        if of_move is not None:
            return of_move
        auction = state.auctions.open.get(said.workload)
        if auction is None or auction.auction != said.auction or said.region not in auction.asked:
            return Decision(_late(state, said, envelope.at))
        if said.region in auction.abstained or said.region in auction.bids:
            return NOTHING  # A repeat, or another agent's answer to a request that the bus repeated.
        return Decision(events=(AbstentionHeard(said),))


def _late(state: QueueState, answer: Bid | Abstention, now: Instant) -> tuple[LateAnswerHeard, ...]:
    """Return a note if the region had answered nothing in that cycle, and needs more time than it is given."""
    spans = state.auctions.spans
    asked_at = spans.asked_at(answer.region, cycle_of(answer.auction))
    if asked_at is None or 2 * (now - asked_at) <= spans.of(answer.region):
        return ()
    return (LateAnswerHeard(answer.region, Nanoseconds(now - asked_at)),)
