"""Events of the log `global` about shared pools: the policy, the shares, and which job runs where from round to round."""

from core.fact import Event
from core.nouns.ids import WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.sharing import PoolShares, ShareColumn, SharingSettings


class PolicySet(Event, frozen=True, tag="policy-set"):
    """From the next round on, shared pools go by these settings."""

    settings: SharingSettings
    revision: int
    by: str = ""


class SharesSet(Event, frozen=True, tag="shares-set"):
    """From the next round on, jobs of these classes are owed this part of their time."""

    shares: PoolShares
    is_more: bool = False
    """Whether the classes are further ones of the same revision: a fact has not room for all."""
    policy: str = ""
    sequence: int = 0
    """Of this log, up to which a planner had read when it asked its solver."""


class SpeedMeasured(Event, frozen=True, tag="speed-measured"):
    """Checkpoints of jobs with this key show another speed on a GPU type than was known: from now on it counts, whatever users tell."""

    speed_key: str
    """Of the jobs (core/sharing/classes.py)."""
    gpu_type: str
    speed: int
    """Millionths of a step in a second, a moving average."""
    beside: str = ""
    """The key of the jobs beside which they ran on the same GPUs; empty: alone."""


class RoundBegun(Event, frozen=True, tag="round-begun"):
    """A round began: every job is owed its shares, and only what changes is told. Who is in neither list stays where it is."""

    number: int
    """The time of its begin over the span of a round."""
    columns: tuple[ShareColumn, ...]
    joins: dict[WorkloadId, int]
    """The column of each that is to run there now."""
    leaves: tuple[WorkloadId, ...]
    """They run, and are to save and stop; who is among `joins` too goes on there."""
    deadline: Nanoseconds
    """In which those who leave are stopped unasked, from the order on."""
    wide: tuple[WorkloadId, ...] = ()
    """Of those who join, the jobs that need several GPUs of one node: they may push out narrower ones of the pool that lie in their way."""
    beside: dict[WorkloadId, WorkloadId] = {}
    """Of those that join, the jobs that share the GPU of another, each with that other, which is picked for the same column."""
    rests: tuple[WorkloadId, ...] = ()
    """From now on these are owed nothing, until a round names them in `resumes`, or they are picked: they are on hold or to be cancelled,
    or their tenant has no budget left."""
    resumes: tuple[WorkloadId, ...] = ()
    """From now on these are owed their shares again."""


class PicksAdded(Event, frozen=True, tag="picks-added"):
    """Within a round idle GPUs were given to jobs that wait. Nobody leaves for these, but for narrow jobs that lie in the way of wide ones."""

    columns: tuple[ShareColumn, ...]
    joins: dict[WorkloadId, int]
    wide: tuple[WorkloadId, ...] = ()
    """As in `RoundBegun`."""


EVENTS: tuple[type[Event], ...] = (PolicySet, SharesSet, SpeedMeasured, RoundBegun, PicksAdded)
