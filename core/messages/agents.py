"""What a broker, the queue and the store say to allocation agents, and how agents show that they are there."""

from collections.abc import Mapping

from core.messages.base import NOTHING_REFUSED, Message
from core.messages.broker import ExecuteAward, SolicitBid
from core.nouns.ids import AgentName, ClaimId, RegionName, WorkloadId
from core.nouns.placement import NodeRow


class AgentPresent(Message, frozen=True, tag="agent-present"):
    """To the broker: this agent takes requests."""

    region: RegionName
    agent: AgentName


class PresenceWanted(Message, frozen=True, tag="presence-wanted"):
    """To every agent and worker of the region: the broker has just started and knows nobody."""

    region: RegionName
    life: int
    """The broker's, told apart from its lives before. Reports echo it: what was said to another is no news."""


class FindBid(Message, frozen=True, tag="find-bid"):
    """The broker hands a request for a bid to one agent."""

    region: RegionName
    agent: AgentName
    request: SolicitBid
    stripe: int = 0
    stripes: int = 1
    """Pods whose number is `stripe` modulo `stripes` come first: agents that are asked at one time have different ones."""


class PlaceAward(Message, frozen=True, tag="place-award"):
    """The broker hands an award to one agent."""

    region: RegionName
    agent: AgentName
    award: ExecuteAward
    stripe: int = 0
    stripes: int = 1
    """As in `FindBid`."""


class BidSettled(Message, frozen=True, tag="bid-settled"):
    """The queue closed the auction: the bid no longer stands, unless it won."""

    region: RegionName
    agent: AgentName
    workload: WorkloadId
    auction: str
    has_won: bool
    reason: str = ""
    """Why it could not win, whatever it was; empty: another was better, or it came too late."""


class ClaimAnswered(Message, frozen=True, tag="claim-answered"):
    """The store's answer to a claim, once what it says is durable."""

    region: RegionName
    agent: AgentName
    workload: WorkloadId
    epoch: int
    claim: ClaimId
    verdict: str
    """`granted`, `promised`, `conflict` or `refused`."""
    reason: str = ""
    rows: tuple[NodeRow, ...] = ()
    """After a conflict, also about a part: the current rows of the nodes without room."""
    sequence: int = 0
    """Of the region's log: the rows hold from here on, and the agent catches up to it before it tries again."""
    unplaced: tuple[int, ...] = ()
    """Of a grant of a part: how many tasks of each job were not placed, for want of room on the nodes in `rows`."""

    @property
    def refusal(self) -> Mapping[str, str]:
        """A claim that should never have been made, or comes too late."""
        if self.verdict != "refused":
            return NOTHING_REFUSED
        told = {"workload": self.workload, "epoch": str(self.epoch), "agent": self.agent}
        return {"claim": self.claim, "reason": self.reason, **told}


MESSAGES: tuple[type[Message], ...] = (
    AgentPresent,
    PresenceWanted,
    FindBid,
    PlaceAward,
    BidSettled,
    ClaimAnswered,
)
