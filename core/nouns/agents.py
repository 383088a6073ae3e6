"""How a region's agents see it: how fresh their views are, in how many partitions, and in which order they look at these."""

from enum import StrEnum

from msgspec import Struct

from core.nouns.instant import MILLISECOND, Nanoseconds
from core.nouns.limits import CLAIM_TRIES_MAX

DEFAULT_PARTITIONS = 64
DEFAULT_SYNC_EVERY = Nanoseconds(500 * MILLISECOND)
DEFAULT_FULL = 2


class AgentView(StrEnum):
    """What agents know of the region, and when they learn it."""

    STREAM = "stream"
    """Every agent folds every fact at once."""
    PARSYNC = "parsync"
    """Agents take in node rows alone: each a few partitions in a round, and different agents different ones."""
    STATESYNC = "statesync"
    """Agents take in node rows alone: each agent all of them, once in `sync_every`. ParSync's baseline."""


class Placing(StrEnum):
    """Strategies that order partitions (core/placing/strategies/)."""

    TIER_FIRST = "tier-first"
    LATENCY_FIRST = "latency-first"
    QUALITY_FIRST = "quality-first"
    ADAPTIVE = "adaptive"


class PlacedBy(StrEnum):
    """Why the partition of a claim came first; a claim's view names it."""

    TIER_FIRST = "tier-first"
    LATENCY_FIRST = "latency-first"
    QUALITY_FIRST = "quality-first"
    ADAPTIVE_IN_TIME = "adaptive-in-time"
    ADAPTIVE_LATE = "adaptive-late"
    OWN_RACK = "own-rack"
    """A gang in the tightest rack of the agent's own partitions that holds it, whatever the strategy."""
    WHOLE_REGION = "whole-region"

    @classmethod
    def of(cls, placing: str, *, is_late: bool, is_in_a_rack: bool) -> "PlacedBy":
        """Return what chose the partition, by the strategy that is set (tier-first for one that this build does not know)."""
        if is_in_a_rack:
            return cls.OWN_RACK
        if placing == Placing.ADAPTIVE:
            return cls.ADAPTIVE_LATE if is_late else cls.ADAPTIVE_IN_TIME
        return cls(placing) if placing in set(Placing) else cls.TIER_FIRST


class Rotation(StrEnum):
    """Which partitions the agents of a region own in one round."""

    DIFFERENT = "different"
    """Each agent other ones."""
    SAME = "same"
    """All agents the same ones: for experiments."""


class AgentSettings(Struct, frozen=True):
    """Of a region's agents. Names are texts, so that a wrong one is answered with what there is."""

    view: str = AgentView.STREAM.value
    placing: str = Placing.TIER_FIRST.value
    partitions: int = DEFAULT_PARTITIONS
    """As many as there are racks, if there are fewer racks."""
    sync_every: Nanoseconds = DEFAULT_SYNC_EVERY
    """In which each partition is owned by each agent once: ParSync's G."""
    rotation: str = Rotation.DIFFERENT.value
    full: int = DEFAULT_FULL
    """Agents that fold every fact, whatever the view: the first by number."""
    tries: int = CLAIM_TRIES_MAX
    """Claims for one award, after which an agent that met conflicts gives the award back."""

    @property
    def has_rows_alone(self) -> bool:
        """Whether agents take in node rows, and fold no holdings, unless they are full ones."""
        return self.view != AgentView.STREAM


class Turn(Struct, frozen=True):
    """What an agent owns in a round, as its broker tells it with each request.

    source    ParSync (ATC'21): in each round, different schedulers refresh different partitions
    """

    index: int = 0
    """Of the agent among those of its sort, from 0."""
    agents: int = 1
    """Agents of its sort that are present: full ones, or those with partitions."""
    round: int = 0
    """Of the broker's clock: rounds last `sync_every` / `agents`."""
    is_full: bool = True
    """Whether the agent folds every fact."""
