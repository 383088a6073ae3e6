"""A region's choice of victims, the caps on their lost work, and the time in which their controllers are asked."""

from enum import StrEnum

from msgspec import Struct

from core.nouns.ids import WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.limits import PREEMPTION_ASK_SPAN

PREEMPTION = "p-"
"""The prefix of an operation's source that frees capacity for a promise; the attempt with the promise follows."""
PREEMPTION_REQUESTER = "preemption"
"""The requester of such operations: an active promise, which has caps of its own (core/images/preemption.py)."""


class VictimOrder(StrEnum):
    """The order of victims of one priority."""

    COST = "cost"
    """Lowest eviction cost first: lost work and another start (core/rules/placement/eviction_cost.py)."""
    PAPER = "paper"
    """Longest run time first (MAST §4.3)."""


class BidScore(StrEnum):
    """The comparison of bids by their victims."""

    VECTOR = "vector"
    """The highest priority of all victims, then how many, then what is destroyed: over the whole workload."""
    PAPER = "paper"
    """One figure a job, summed over its jobs (MAST §4.3): many small jobs can outvote one."""


class PreemptionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Of one region."""

    order: VictimOrder = VictimOrder.COST
    score: BidScore = BidScore.VECTOR
    ask_span: Nanoseconds = PREEMPTION_ASK_SPAN
    """From a promise until victims that have a controller are stopped without its word."""
    claim_max: int = 0
    """GPU-seconds of work that one claim may destroy; 0: as much as the region's size allows."""
    hour_max: int = 0
    """The same of all claims of an hour."""


DEFAULT_PREEMPTION = PreemptionSettings()


def source_of(workload: WorkloadId, epoch: int) -> str:
    """The source of operations that make room for this attempt's promise."""
    return f"{PREEMPTION}{workload}.{epoch}"


def promised_to(source: str) -> tuple[WorkloadId, int] | None:
    """The attempt that such a source names; None: it names none."""
    workload, dot, epoch = source.removeprefix(PREEMPTION).rpartition(".")
    is_one = source.startswith(PREEMPTION) and dot and epoch.isascii() and epoch.isdigit()
    return (WorkloadId(workload), int(epoch)) if is_one else None
