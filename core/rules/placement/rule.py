"""Placement rules: judgements on nodes for a request. A rule names the traits that it reads, and how far a change spreads.

    ClusterValidator   may the request run on nodes of this cluster at all? Evaluated once per class and cluster
    NodeValidator      may the request run on these nodes now?
    NodePreference     how good is each of these nodes: 0 is best, `steps` - 1 is worst
    ClusterPreference  how good are all nodes of a cluster for the request, regardless of the work there
    UnitPreference     how good is a rack, a pod, a power domain or a cluster, by its free capacity: equal for all requests
    Refinement         the best of the few nodes that are still equal; slow, and evaluated last
    TieBreak           one of the nodes that are still equal then; without a tie-break, one is drawn

A rule is one file of this folder, and one line in `rule_sets.py` (docs/placement-rules.md shows how). Preferences are compared
strictly in the order of their rule set: a rule decides only among nodes that are equal by all rules before. Scores are quantised
to `steps` values, because otherwise the first rule would decide alone; a rule with 1 step is off.

source    Protean §3 (validators, preferences, quantisation); core/placing/ searches by the rules
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from core.images.capacity import Capacity
from core.nouns.cluster import Cluster
from core.nouns.fleet import ANY_TYPE, node_type_of
from core.nouns.ids import TenantName
from core.nouns.prices import Prices
from core.nouns.quantities import MILLI, Amount
from core.nouns.reasons import Reason
from core.nouns.workload import Extent, Kind
from core.rules.placement.errors import RuleFailed

Numbers = NDArray[Any]
"""An array of whole numbers of any width."""
Codes = NDArray[np.uint32]
Flags = NDArray[np.bool_]


_ANY = tuple(node_type_of(ANY_TYPE, runs_programs=runs_programs) for runs_programs in (False, True))


class Request(Struct, frozen=True):
    """The traits of a job that rules may read. Jobs with equal traits share one class."""

    need: Amount
    """The need of one task, or of all `together` tasks."""
    node_type: str
    """The node type; of several that the job accepts, the first in order; or the type that stands for any."""
    kind: Kind = Kind.TRAINING
    tenant: TenantName = TenantName("")
    priority: int = 0
    zones: tuple[str, ...] = ()
    """Zones in which the job may run; empty: in any."""
    near: tuple[str, ...] = ()
    """Zones that have the job's data; empty: all zones are equal."""
    gpu_memory: int = 0
    """Bytes that one GPU must have."""
    is_alone: bool = False
    """True if the job shares no node with other tenants."""
    heeds_reserve: bool = True
    """True if the job leaves a pool's reserve of empty nodes alone. No rule reads this field or the next."""
    heeds_limit: bool = True
    """True if the job takes no more of a pool than the pool's limit allows."""
    tasks_per_node: int = 0
    """The most tasks on one node; 0: as many as fit."""
    together: int = 1
    """The number of tasks with parts of devices that are searched on one node as one task; `need` is their sum."""
    pack: Extent = Extent.ANY
    spread: Extent = Extent.ANY
    or_types: tuple[str, ...] = ()
    """Other node types that the job accepts, ascending."""
    barred: tuple[int, ...] = ()
    """Reservations that bar the job from their nodes, each by the sequence of the reservation's fact."""

    @property
    def has_one_type(self) -> bool:
        """Return whether the job accepts exactly one node type."""
        return not self.or_types and self.node_type not in _ANY

    def on(self, node_type: str) -> "Request":
        """Return the request restricted to nodes of this type."""
        return replace(self, node_type=node_type, or_types=())

    @property
    def part(self) -> int:
        """Return the milli of the part of a device that one task needs; 0 for whole devices only."""
        return self.need.gpu_milli // self.together % MILLI

    @property
    def alone_as(self) -> str:
        """Return the tenant if the job is to be alone, else an empty name, so that all other jobs share one class."""
        return self.tenant if self.is_alone else ""


class Level(StrEnum):
    """Sets of nodes for which a rule has one judgement."""

    NODE = "node"
    RACK = "rack"
    POD = "pod"
    DOMAIN = "power_domain"
    CLUSTER = "cluster"


class Rows(Protocol):
    """Columns of some nodes, one entry per node; each column may be read more than once."""

    @property
    def gpu(self) -> Numbers:
        """GPU milli available: not held, promised or offered, and not on a closed node."""

    @property
    def whole(self) -> Numbers:
        """GPU milli available on wholly free devices."""

    @property
    def shared(self) -> Numbers:
        """(rows, most) milli available on each shared device; 0 in unused columns; `most` may be 0."""

    @property
    def cpu(self) -> Numbers:
        """CPU milli available."""

    @property
    def memory(self) -> Numbers:
        """Bytes available."""

    @property
    def gpu_total(self) -> Numbers:
        """GPU milli that the node has."""

    @property
    def is_open(self) -> Numbers:
        """1 where tasks may be placed, else 0."""

    @property
    def upkeep(self) -> Numbers:
        """1 where work on the node is planned, else 0; once notice was given, the node is closed too."""

    @property
    def owner(self) -> Numbers:
        """The node's owner: a tenant's code, APART (core/placing/index/owners.py), NOBODY or SEVERAL."""

    @property
    def start(self) -> Numbers:
        """The reservation that the node is kept for, by the sequence of its fact; 0: no reservation."""

    @property
    def has_starts(self) -> bool:
        """True if `start` was ever other than 0 on some node."""

    @property
    def has_owners(self) -> bool:
        """True if `owner` was ever other than NOBODY on some node."""

    @property
    def has_plans(self) -> bool:
        """True if `upkeep` was ever other than 0 on some node."""

    @property
    def has_islands(self) -> bool:
        """True if some nodes have several islands."""

    @property
    def island(self) -> Numbers:
        """GPUs of an NVLink island; 0: unknown."""

    @property
    def node_types(self) -> tuple[str, ...]:
        """Node types of the whole pool, ascending."""

    @property
    def node_type(self) -> Numbers:
        """Index into `node_types`."""


NOBODY, SEVERAL = -1, -2
PASSING_TRAITS = frozenset({"alone_as", "barred"})
"""Traits read by the hard rules on a node's owners and reservations. Each rule reads one trait but names both, so that their results
share one array, which is updated once per search and not once per rule."""


class Present(Protocol):
    """A region's present state, against which a store re-checks hard rules."""

    @property
    def capacity(self) -> Capacity:
        """The region's nodes."""

    @property
    def has_alone(self) -> bool:
        """True if some work is alone on its nodes; if not, owners matter only to requests that are to be alone."""

    def owner(self, node: int) -> int:
        """Return the owner of a node, coded as `Rows.owner`."""

    def is_barred(self, node: int) -> bool:
        """Return whether the node is kept for another workload's reservation that bars the claim."""


_ASKED = ("admits", "allows", "allows_at", "score", "cost")


class Rule(ABC):
    """The base of all rules. An exception raised by an evaluation becomes RuleFailed, which names the rule."""

    name: ClassVar[str]
    traits: ClassVar[frozenset[str]] = frozenset()
    """The fields of a request that the rule reads: requests with equal traits are equal to the rule."""
    level: ClassVar[Level] = Level.NODE
    reads_prices: ClassVar[bool] = False
    """True if the rule reads the mix or the prices of expected tasks."""

    def knowing(self, prices: Prices) -> Self:
        """Return the rule with these prices."""
        return self

    def is_idle(self, rows: Rows) -> bool:
        """Return whether the rule may be skipped: since the rows were made, every node with capacity had the rule's best result."""
        return False

    def __init_subclass__(cls) -> None:
        for name in _ASKED:
            method = cls.__dict__.get(name)
            if method is not None and not getattr(method, "__isabstractmethod__", False):
                setattr(cls, name, _guarded(method))


class ClusterValidator(Rule):
    """A hard rule with one answer for all nodes of a cluster, regardless of the work there. A store re-checks each node."""

    level = Level.CLUSTER
    reason: ClassVar[Reason]
    """The reason of a refused claim."""

    @abstractmethod
    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Return whether a task may run on nodes of the cluster."""


class NodeValidator(Rule):
    """A hard rule on a node's present state, in two forms that agree: for many rows, and for one node at the grant."""

    reason: ClassVar[Reason]
    """The reason of a refused claim."""

    @abstractmethod
    def allows(self, rows: Rows, request: Request) -> Flags:
        """Return where a task may run now."""

    @abstractmethod
    def allows_at(self, present: Present, node: int, request: Request) -> bool:
        """Return whether a task may run on this node now."""


class Preference(Rule):
    """A soft rule, with a score of few values."""

    is_about_task: ClassVar[bool] = False
    """True if a worse score is a worse place for the task itself, whatever else runs in the region: it makes tiers (plan.py)."""
    is_about_empty: ClassVar[bool] = False
    """True if a worse score is a node that is better kept empty: of an agent's own partitions, those with a better one come first."""

    def __init__(self, steps: int) -> None:
        self.steps = steps


class NodePreference(Preference):
    """A preference by node."""

    is_dear: ClassVar[bool] = False
    """True if the rule is expensive and reads only the columns in which alike nodes are equal (core/placing/index/node_classes.py).

    Of many nodes, only one of each sort is then scored.
    """

    def concerns(self, request: Request) -> bool:
        """Return whether the rule distinguishes nodes for such a request; otherwise the rule is skipped."""
        return True

    @abstractmethod
    def score(self, rows: Rows, request: Request) -> Numbers:
        """Return a score for each row: 0 (best) to `steps` - 1."""


class ClusterPreference(Preference):
    """A preference by cluster and request, ordered among preferences by node: all nodes of a cluster have one score."""

    @abstractmethod
    def score(self, cluster: Cluster, request: Request) -> int:
        """Return 0 (best) to `steps` - 1."""


class UnitPreference(Preference):
    """A preference by rack, pod, power domain or cluster, which reads no request."""

    @abstractmethod
    def score(self, free: Any, total: Any) -> Any:
        """Return 0 (best) to `steps` - 1, for one unit or for an array of units.

        free, total   GPU milli; `total` includes lost nodes, and is at least 1
        """


class Refinement(Rule):
    """A choice among the few nodes that are equal by all preferences."""

    @abstractmethod
    def cost(self, rows: Rows, request: Request) -> Numbers:
        """Return the cost of each row; lower is better."""


class TieBreak(Rule):
    """A choice among nodes that are equal by all other rules. A marker that the search reads; never evaluated."""


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:  # Any: five different signatures
    @wraps(method)
    def asked(self: Rule, *given: object) -> Any:
        try:
            return method(self, *given)
        except Exception as error:
            raise RuleFailed(self.name, repr(error)) from error

    return asked
