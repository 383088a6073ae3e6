"""What a region's harvester, its placement store, its function servers and its routers tell each other of harvested capacity."""

from msgspec import Struct

from core.messages.base import Answer, Message
from core.nouns.harvest import HarvestPart, HarvestUse
from core.nouns.ids import RegionName, TenantName
from core.nouns.instant import Nanoseconds
from core.nouns.quantities import NOTHING, Amount


class OfferHarvest(Message, frozen=True, tag="offer-harvest"):
    """Functions may use so much of these nodes: a proposal of the harvester, said again until the log shows it or the node has changed."""

    region: RegionName
    revision: int
    """Of what is harvested in the region, as the harvester saw it; nodes of which the size has changed since are left out."""
    parts: tuple[HarvestPart, ...]
    """The new size of each, larger than the one before, or as large with another grace."""
    sequence: int = 0
    """Of the newest fact of the region's log that the harvester had seen: capacity of a node that a later one changed was not calm since."""


class RecallHarvest(Message, frozen=True, tag="recall-harvest"):
    """Functions may use no more than so much of these nodes: the pool's settings say so."""

    region: RegionName
    revision: int
    """As of `OfferHarvest`."""
    parts: tuple[HarvestPart, ...]


class NodeReleased(Struct, frozen=True):
    """A server uses no more of a node than it may, recalls younger than these apart."""

    node: int
    revision: int
    """Of the newest of these recalls: the server has heard of it."""
    lost: int = 0
    """Calls that the server ended for these recalls before they were done."""
    lost_span: Nanoseconds = Nanoseconds(0)
    """Run time of these calls."""


class ReleaseHarvest(Message, frozen=True, tag="release-harvest"):
    """Recalls of these nodes are over, as their servers say. Said again until the log shows it."""

    region: RegionName
    parts: tuple[NodeReleased, ...]


class NodeSize(Struct, frozen=True):
    """What functions may use of one node beside what tasks hold for them."""

    node: int
    total: Amount
    """Of the node."""
    size: Amount
    """0: it is harvested no more, and what is used still is given back."""
    within: Nanoseconds
    """Grace of a recall."""
    is_cpu: bool = False
    """It is a real machine without GPUs: functions use its CPU slots as cores."""

    def of_node(self, used: Amount) -> Amount:
        """Return the use of executors as the region counts capacity of the node."""
        return Amount(used.cpu_milli, used.cpu_milli, used.memory_bytes) if self.is_cpu else used


class SizeServer(Message, frozen=True, tag="size-server"):
    """Functions may use so much of the nodes of a server's worker: all of them that are harvested, or being given back.

    Said at every change, and again until the server has said that it heard.
    """

    region: RegionName
    server: str
    revision: int
    """Of what is harvested in the region: an older one says nothing."""
    sizes: tuple[NodeSize, ...]


class NodeUse(Struct, frozen=True):
    """What executors use of the harvested part of one node."""

    node: int
    used: Amount
    """By all executors there, those included that are about to leave."""
    lost: int = 0
    """Calls that were ended before they were done, since the newest revision that made the size smaller."""
    lost_span: Nanoseconds = Nanoseconds(0)
    """How long these had run."""


class ServerSized(Message, frozen=True, tag="server-sized"):
    """A server has heard its sizes, and uses so much. Said at each `SizeServer`, and when it has left what was recalled."""

    region: RegionName
    server: str
    revision: int
    """The newest that it has heard; 0: it knows of none, having just been set up."""
    uses: tuple[NodeUse, ...]


class TenantHarvest(Struct, frozen=True):
    """How much risk a tenant takes."""

    tenant: TenantName
    use: HarvestUse


class HarvestOdds(Message, frozen=True, tag="harvest-odds"):
    """How often harvested capacity is recalled, and which tenants may use it: to each router of a region, again and again."""

    region: RegionName
    router: str
    recalls: int
    """Of one node in an hour, in millionths: the expected number."""
    grace: Nanoseconds
    """The shortest of the pools that are harvested."""
    tenants: tuple[TenantHarvest, ...] = ()
    """Tenants with another setting than `all`."""


class TaskLends(Message, frozen=True, tag="task-lends"):
    """The tasks of one attempt on one node lend so many of their devices, or want them back: from the worker, by way of the broker."""

    region: RegionName
    workload: str
    epoch: int
    node: int
    size: Amount = NOTHING
    """All that they lend there now."""
    number: int = 0
    """Counts what is said of this attempt and node: an older one says nothing."""


# For people.


class ShowHarvest(Message, frozen=True, tag="show-harvest"):
    """Tell what is harvested in a region."""

    region: RegionName


class ShownHarvest(Struct, frozen=True):
    """One pool of which something is harvested, was in the last day, or may be."""

    pool: str
    is_on: bool
    nodes: int
    """Harvested now."""
    offered: Amount
    """Capacity that functions may use now."""
    used: Amount
    """Of that and of what is recalled, as function servers told last."""
    recalled: Amount
    """Capacity that is being given back now."""
    recalls: int
    """Of the last day."""
    lost: int
    """Calls that recalls have ended, of the last day."""
    lost_span: Nanoseconds
    """Run time of these."""
    node_span: int
    """Milliseconds that nodes were harvested in the last day, of all nodes together."""
    reclaim_p50: Nanoseconds
    """From recalls to their releases, of the newest 1,024."""
    reclaim_p99: Nanoseconds
    grace: Nanoseconds
    unconfirmed: tuple[int, ...] = ()
    """Nodes of which the function server has not said in time that it gave back: nothing more is offered there until it is heard."""


class HarvestShown(Answer, frozen=True, tag="harvest-shown"):
    """All pools, by name."""

    pools: tuple[ShownHarvest, ...]
    recalls_per_node_hour: int
    """Expected of one node, in millionths."""
    servers: int
    """Function servers that are heard."""


MESSAGES: tuple[type[Message], ...] = (
    OfferHarvest,
    RecallHarvest,
    ReleaseHarvest,
    SizeServer,
    ServerSized,
    HarvestOdds,
    TaskLends,
    ShowHarvest,
    HarvestShown,
)
