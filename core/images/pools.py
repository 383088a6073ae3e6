"""A section of a region's image: what operators set of its pools, and the newest plan of which nodes move between them."""

from msgspec import field
from msgspec.structs import replace

from core.events.pools import PoolChanged, PoolingPolicySet, PoolsApplied, PoolsPlanned
from core.fact import Fact
from core.images.base import Section
from core.nouns.pool import UNSET, PoolSettings
from core.nouns.pooling import PoolingPolicy, PoolsPlan


class Pools(Section):
    """Settings by pool; a pool without settings has the defaults. Which node is in which pool is in the section `capacity`."""

    FOLDS = {
        PoolChanged: "_changed",
        PoolingPolicySet: "_policy_set",
        PoolsPlanned: "_planned",
        PoolsApplied: "_applied",
    }

    settings: dict[str, PoolSettings] = field(default_factory=dict)
    revision: int = 0
    """Grows with every change: a command names the one that it was given for, and a view the one that it was chosen by."""
    policy: PoolingPolicy = PoolingPolicy()
    plan: PoolsPlan = PoolsPlan()
    """The newest."""
    planned_at: int = 0
    is_applied: bool = False
    """Whether the moves of the newest plan have begun."""

    def of(self, pool: str) -> PoolSettings:
        """Of one pool."""
        return self.settings.get(pool, UNSET)

    @property
    def has_needs(self) -> bool:
        """Whether any pool needs anything: otherwise no node ever moves."""
        return any(one.needs for one in self.settings.values())

    def _changed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PoolChanged)
        self.settings[event.pool] = event.settings
        self.revision += 1

    def _policy_set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PoolingPolicySet)
        self.policy = event.policy
        self.revision += 1

    def _planned(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PoolsPlanned)
        if event.is_more:
            self.plan = replace(self.plan, moves=(*self.plan.moves, *event.plan.moves))
        else:
            self.plan, self.planned_at, self.is_applied = event.plan, fact.at, False

    def _applied(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PoolsApplied)
        self.is_applied = True
