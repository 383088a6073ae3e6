"""What a placement rule is: a judgement on nodes for a request, that says what it reads and how far a change spreads.

    ClusterValidator   may this request run on nodes of this cluster at all? Asked once a class and cluster
    NodeValidator      may it run on these nodes now?
    NodePreference     how good is each of these nodes: 0 is best, `steps` - 1 is worst
    ClusterPreference  how good are all nodes of a cluster for it, whatever runs there
    UnitPreference     how good is a rack, a pod or a power domain, by what is free in it: the same for all requests
    Refinement         which of the few that are still equal is best; slow, and asked last
    TieBreak           one of those that are still equal then; where there is none, one is drawn

Each is one file of this folder, and one line in `rule_sets.py` (docs/placement-rules.md shows how). Preferences are compared strictly in the
order of their rule set: a rule decides only among nodes that are equal to all before it. Scores are quantised to `steps`
values, or the first rule would decide everything; 1 step is a rule that is off.

source    Protean §3 (validators, preferences, quantisation); core/placing/ holds what searches by them
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
"""Of whichever whole numbers."""
Codes = NDArray[np.uint32]
Flags = NDArray[np.bool_]


_ANY = tuple(node_type_of(ANY_TYPE, runs_programs=runs_programs) for runs_programs in (False, True))


class Request(Struct, frozen=True):
    """What rules may read of a job: its traits. Jobs of equal traits share what was worked out for one."""

    need: Amount
    """Of one task."""
    node_type: str
    """Of several that will do, the first in order; or the one that stands for any."""
    kind: Kind = Kind.TRAINING
    tenant: TenantName = TenantName("")
    priority: int = 0
    zones: tuple[str, ...] = ()
    """In which it may run; empty: in any."""
    near: tuple[str, ...] = ()
    """Where its data is; empty: anywhere is as good."""
    gpu_memory: int = 0
    """Bytes that one GPU must have."""
    is_alone: bool = False
    """Whether it shares no node with other tenants."""
    heeds_reserve: bool = True
    """Whether it leaves a pool's reserve of empty nodes alone. No rule reads this or the next."""
    heeds_limit: bool = True
    """Whether it takes no more of a pool than its limit allows."""
    tasks_per_node: int = 0
    """The most tasks on one node; 0: as many as fit."""
    together: int = 1
    """So many tasks that need parts of devices are looked for on one node as if they were one: `need` is of all of them."""
    pack: Extent = Extent.ANY
    spread: Extent = Extent.ANY
    or_types: tuple[str, ...] = ()
    """Other node types that will do as well, ascending."""
    barred: tuple[int, ...] = ()
    """Reserved starts on whose nodes it may not be, each by the sequence of its fact."""

    @property
    def has_one_type(self) -> bool:
        """Whether it names one node type, and not any."""
        return not self.or_types and self.node_type not in _ANY

    def on(self, node_type: str) -> "Request":
        """The same on nodes of this type and of no other."""
        return replace(self, node_type=node_type, or_types=())

    @property
    def part(self) -> int:
        """Milli of the part of a device that a task needs; 0 where it takes whole ones."""
        return self.need.gpu_milli // self.together % MILLI

    @property
    def alone_as(self) -> str:
        """Its tenant if it is to be alone. The others are all alike to a node, and so share what was worked out for one."""
        return self.tenant if self.is_alone else ""


class Level(StrEnum):
    """Sets of nodes for which a rule has one judgement."""

    NODE = "node"
    RACK = "rack"
    POD = "pod"
    DOMAIN = "power_domain"
    CLUSTER = "cluster"


class Rows(Protocol):
    """Columns of some nodes, one entry a node; each may be read as often as wanted."""

    @property
    def gpu(self) -> Numbers:
        """GPU milli available: neither held, promised, offered nor closed."""

    @property
    def whole(self) -> Numbers:
        """Of these, milli of devices of which nothing is held."""

    @property
    def shared(self) -> Numbers:
        """(rows, most) milli available on each device of which parts are held; 0 is none; `most` may be 0."""

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
        """1 where something may be placed, or 0."""

    @property
    def upkeep(self) -> Numbers:
        """1 where work on the node is planned, of which no notice was given yet: then it is closed."""

    @property
    def owner(self) -> Numbers:
        """Who has something on the node: a tenant's code, or APART (core/placing/index/owners.py), NOBODY, or SEVERAL."""

    @property
    def start(self) -> Numbers:
        """The reserved start that the node is kept for, by the sequence of its fact; 0: none."""

    @property
    def has_starts(self) -> bool:
        """Whether `start` was ever another than 0, on any node."""

    @property
    def has_owners(self) -> bool:
        """Whether `owner` was ever another than NOBODY, on any node."""

    @property
    def has_plans(self) -> bool:
        """Whether `upkeep` was ever another than 0, on any node."""

    @property
    def has_islands(self) -> bool:
        """Whether there are nodes of several islands."""

    @property
    def island(self) -> Numbers:
        """GPUs of an NVLink island; 0: nobody said."""

    @property
    def node_types(self) -> tuple[str, ...]:
        """Of all nodes, whichever these rows are of."""

    @property
    def node_type(self) -> Numbers:
        """Places in `node_types`."""


NOBODY, SEVERAL = -1, -2
PASSING_TRAITS = frozenset({"alone_as", "barred"})
"""What rules read that forbid a node by who is there or is to come. Each of them reads one; that all name both keeps their word on
each node in one place, which is brought up to date once a search and not once a rule."""


class Present(Protocol):
    """A region as it is now: what a store re-checks hard rules against."""

    @property
    def capacity(self) -> Capacity:
        """Its nodes."""

    @property
    def has_alone(self) -> bool:
        """Whether anybody is alone on a node anywhere: if nobody is, and nobody is to be, owners are of no matter."""

    def owner(self, node: int) -> int:
        """Who has something on a node, as `Rows.owner` says it."""

    def is_barred(self, node: int) -> bool:
        """Whether the node is kept for the start of somebody else, and who asks may not be there."""


_ASKED = ("admits", "allows", "allows_at", "score", "cost")


class Rule(ABC):
    """What all rules have. Whatever one raises when it is asked becomes RuleFailed, which names it."""

    name: ClassVar[str]
    traits: ClassVar[frozenset[str]] = frozenset()
    """The fields of a request that it reads: requests equal in these are equal to it."""
    level: ClassVar[Level] = Level.NODE
    reads_prices: ClassVar[bool] = False
    """Whether it goes by what the tasks to come are expected to be."""

    def knowing(self, prices: Prices) -> Self:
        """The same rule by these prices."""
        return self

    def is_idle(self, rows: Rows) -> bool:
        """Whether it need not be asked: it forbids no node that has room, or prefers none, and never did since the rows were made."""
        return False

    def __init_subclass__(cls) -> None:
        for name in _ASKED:
            method = cls.__dict__.get(name)
            if method is not None and not getattr(method, "__isabstractmethod__", False):
                setattr(cls, name, _guarded(method))


class ClusterValidator(Rule):
    """Hard, and the same for all nodes of a cluster, whatever runs there. A store asks it the same question of one node."""

    level = Level.CLUSTER
    reason: ClassVar[Reason]
    """Of a claim that it forbids."""

    @abstractmethod
    def admits(self, cluster: Cluster, request: Request) -> bool:
        """Whether a task may run on such nodes."""


class NodeValidator(Rule):
    """Hard, by node, and by what is there now. It has two forms that agree: of many rows, and of one node at the grant."""

    reason: ClassVar[Reason]
    """Of a claim that it forbids."""

    @abstractmethod
    def allows(self, rows: Rows, request: Request) -> Flags:
        """Where a task may run now."""

    @abstractmethod
    def allows_at(self, present: Present, node: int, request: Request) -> bool:
        """Whether a task may run on this node now."""


class Preference(Rule):
    """Soft, with a score of few values."""

    def __init__(self, steps: int) -> None:
        self.steps = steps


class NodePreference(Preference):
    """By node."""

    is_dear: ClassVar[bool] = False
    """Whether it costs much, and reads of a node only in what nodes are alike (core/placing/index/node_classes.py): of these one is asked."""

    def concerns(self, request: Request) -> bool:
        """Whether it tells nodes apart for such a request; where it does not, it is not asked."""
        return True

    @abstractmethod
    def score(self, rows: Rows, request: Request) -> Numbers:
        """0 (best) to `steps` - 1."""


class ClusterPreference(Preference):
    """By cluster and request. It has its place among preferences by node: all nodes of a cluster have its score."""

    @abstractmethod
    def score(self, cluster: Cluster, request: Request) -> int:
        """0 (best) to `steps` - 1."""


class UnitPreference(Preference):
    """By rack, pod, power domain or cluster; reads no request."""

    @abstractmethod
    def score(self, free: Any, total: Any) -> Any:
        """0 (best) to `steps` - 1, of one unit or of an array of them.

        free, total   GPU milli; `total` counts lost nodes too, and is 1 at least
        """


class Refinement(Rule):
    """Among a few nodes that are equal to all preferences."""

    @abstractmethod
    def cost(self, rows: Rows, request: Request) -> Numbers:
        """Lower is better."""


class TieBreak(Rule):
    """Among nodes that are equal to everything else. It is a word to the search, which is asked nothing."""


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:  # Any: of whichever of the five it is
    @wraps(method)
    def asked(self: Rule, *given: object) -> Any:
        try:
            return method(self, *given)
        except Exception as error:
            raise RuleFailed(self.name, repr(error)) from error

    return asked
