"""Events of a region's log about its pools: what operators set of them, and which nodes are in which."""

from core.fact import Event
from core.nouns.pool import PoolSettings
from core.nouns.pooling import NodeRuns, PoolingPolicy, PoolsPlan


class PoolChanged(Event, frozen=True, tag="pool-changed"):
    """An operator set by which rules a pool is searched, what of it stays free, and what it needs."""

    pool: str
    settings: PoolSettings
    by: str = ""


class PoolingPolicySet(Event, frozen=True, tag="pooling-policy-set"):
    """An operator set how nodes may follow the needs of pools."""

    policy: PoolingPolicy
    by: str = ""


class PoolsPlanned(Event, frozen=True, tag="pools-planned"):
    """A planner found which nodes are to move between pools. A plan that one fact cannot hold is told in several, in one batch."""

    plan: PoolsPlan
    """Of a further part only the number and the moves."""
    by: str = ""
    is_more: bool = False
    """Whether this is a further part of the plan told before."""


class PoolsApplied(Event, frozen=True, tag="pools-applied"):
    """The moves of a plan begin: the facts behind it, in the same batch, say which nodes moved and which are closed until they are vacant."""

    number: int
    by: str = ""


class NodesPooled(Event, frozen=True, tag="nodes-pooled"):
    """These nodes are in this pool from now on, whatever their worker says. Nothing was on them."""

    nodes: NodeRuns
    pool: str
    plan: int = 0
    """The number of the region's newest plan then. Nodes that waited to be vacant may be of an earlier one."""


EVENTS: tuple[type[Event], ...] = (PoolChanged, PoolingPolicySet, PoolsPlanned, PoolsApplied, NodesPooled)
