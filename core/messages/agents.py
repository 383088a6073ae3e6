"""What a broker, the queue and the store say to allocation agents, and how agents show that they are there."""

from collections.abc import Mapping

from msgspec import Struct

from core.messages.base import NOTHING_REFUSED, Answer, Message
from core.messages.broker import ExecuteAward, SolicitBid
from core.nouns.agents import AgentSettings, Turn
from core.nouns.ids import AgentName, ClaimId, RegionName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.placement import NodeRow


class AgentFigures(Struct, frozen=True):
    """What an agent can tell of itself. Counts are since its start."""

    view: str = ""
    """`full`, or the view by which the agent takes in partitions; empty: not told."""
    requests: int = 0
    handed_back: int = 0
    """Requests and awards that the agent gave back to the broker, for a full agent."""
    claims: int = 0
    """Claims sent, each try by itself."""
    conflicts: int = 0
    """Tries that met a conflict."""
    awards: int = 0
    """Awards that were claimed, however many tries each took."""
    waited_ms: int = 0
    """Milliseconds that requests waited in the agent's inbox, together."""
    waited_ms_max: int = 0
    """The longest such wait since the beat before."""
    quality_permille: int = 0
    """Sum over `picks`: permille of the partitions with capacity in which no node was better than the chosen one."""
    picks: int = 0
    """Places that were found in a partition."""
    freshest_ms: int = 0
    """Age of the newest rows, in milliseconds; 0 for a full agent."""
    oldest_ms: int = 0
    """Age of the rows of the partition that was taken in longest ago."""
    partitions: int = 0
    """Partitions that the agent knows."""


class AgentPresent(Message, frozen=True, tag="agent-present"):
    """To the broker: this agent takes requests."""

    region: RegionName
    agent: AgentName
    figures: AgentFigures = AgentFigures()


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
    turn: Turn = Turn()
    """What the agent owns at this time: agents that are asked at one time own different partitions."""
    waited: Nanoseconds = Nanoseconds(0)
    """How long it had waited when it was handed on."""


class PlaceAward(Message, frozen=True, tag="place-award"):
    """The broker hands an award to one agent."""

    region: RegionName
    agent: AgentName
    award: ExecuteAward
    turn: Turn = Turn()
    waited: Nanoseconds = Nanoseconds(0)
    """Both as in `FindBid`."""
    tries: int = 0
    """Claims for the award that met conflicts, of an agent that handed the award back."""


class RequestHandedBack(Message, frozen=True, tag="request-handed-back"):
    """To the broker: no partition of this agent has a place, which says nothing of the region. A full agent is to search."""

    region: RegionName
    agent: AgentName
    request: SolicitBid


class AwardHandedBack(Message, frozen=True, tag="award-handed-back"):
    """As `RequestHandedBack`, of an award: the award still stands."""

    region: RegionName
    agent: AgentName
    award: ExecuteAward
    tries: int = 0
    """Claims of the agent for the award that met conflicts."""


class SetAgents(Message, frozen=True, tag="set-agents"):
    """From now on the region's agents see it so, and look at partitions in this order."""

    region: RegionName
    settings: AgentSettings
    present: int
    """Agents that the region's broker knows."""
    revision: int
    """Of the region's agent settings, as the operator saw them; another one is refused as superseded."""
    by: str = ""


class AgentsAnswered(Answer, frozen=True, tag="agents-answered"):
    """The region's agents have these settings."""

    settings: AgentSettings
    revision: int


class ShowAgents(Message, frozen=True, tag="show-agents"):
    """To the broker: which agents are there, and what do they tell of themselves?"""

    region: RegionName


class AgentShown(Struct, frozen=True):
    """One agent, as its last beat showed it."""

    agent: AgentName
    figures: AgentFigures
    heard: Nanoseconds
    """How long ago."""
    is_full: bool
    """Whether the broker counts it among those that fold every fact."""


class AgentsShown(Answer, frozen=True, tag="agents-shown"):
    """The region's agents, by name."""

    agents: tuple[AgentShown, ...]
    settings: AgentSettings
    revision: int


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
    RequestHandedBack,
    AwardHandedBack,
    BidSettled,
    ClaimAnswered,
    SetAgents,
    AgentsAnswered,
    ShowAgents,
    AgentsShown,
)
