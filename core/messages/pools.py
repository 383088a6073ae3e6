"""What operators and planners ask a region's placement store about its pools."""

from core.messages.base import Answer, Message
from core.nouns.ids import RegionName
from core.nouns.pool import PoolSettings
from core.nouns.pooling import PoolingPolicy, PoolsPlan


class SetPool(Message, frozen=True, tag="set-pool"):
    """From now on a pool is searched by these rules, so much of it stays free, and it needs so much."""

    region: RegionName
    pool: str
    settings: PoolSettings
    revision: int
    """Of the region's pool settings, as the operator saw them; another one is refused as superseded."""
    by: str = ""


class PoolAnswered(Answer, frozen=True, tag="pool-answered"):
    """A pool has these settings."""

    pool: str
    settings: PoolSettings
    revision: int


class SetPoolingPolicy(Message, frozen=True, tag="set-pooling-policy", forbid_unknown_fields=True):
    """From now on nodes follow the needs of pools in this way."""

    region: RegionName
    policy: PoolingPolicy
    revision: int
    """As in `SetPool`."""
    by: str = ""


class PoolingPolicyAnswered(Answer, frozen=True, tag="pooling-policy-answered"):
    """A region has this policy."""

    policy: PoolingPolicy
    revision: int


class SetPoolsPlan(Message, frozen=True, tag="set-pools-plan"):
    """These nodes are to move between pools. Applied at once, unless the region's policy leaves that to operators."""

    region: RegionName
    plan: PoolsPlan
    """Its number follows on that of the newest plan, and its basis has the present revision of settings; any other is refused as superseded."""
    by: str = ""


class ApplyPools(Message, frozen=True, tag="apply-pools", forbid_unknown_fields=True):
    """Begin the moves of the newest plan."""

    region: RegionName
    number: int
    """Of the plan that was looked at; another is refused as superseded."""
    by: str = ""


class PoolsAnswered(Answer, frozen=True, tag="pools-answered"):
    """A plan is recorded, and its moves have begun or not."""

    number: int
    moved: int
    """Nodes that moved at once."""
    waiting: int
    """Nodes that are closed until they are vacant."""


MESSAGES: tuple[type[Message], ...] = (
    SetPool,
    PoolAnswered,
    SetPoolingPolicy,
    PoolingPolicyAnswered,
    SetPoolsPlan,
    ApplyPools,
    PoolsAnswered,
)
