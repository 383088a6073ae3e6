"""The rules by which the queue ranks pending workloads, and how many workloads the queue holds."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import PENDING_MAX, REMEMBERED_MAX


class DeadlinePolicy(StrEnum):
    """How stages of pipelines with a deadline are ranked among other work of their level and quota class."""

    LLF = "llf"
    """By start deadline: least laxity first."""
    EDF = "edf"
    """By the pipeline's deadline."""
    OFF = "off"
    """By their submission, as all work."""


class CreditSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What counts how much. The paper names no figure for any of them: each is a guess of ours, to be set by an operator."""

    age_weight: int = 1
    """Credit for each nanosecond of waiting, so that with 1 a credit is a wait. Not negative."""
    age_cap: Nanoseconds = seconds(24 * 3_600)
    """A wait beyond it adds nothing. A guess: a day."""
    share_weight: int = 12 * 3_600 * SECOND
    """Credit of a tenant that used nothing, while one that used its share has 0 and one that used twice its share as much less
    than nothing. A guess: with an age weight of 1, as much as half a day of waiting. Not negative."""
    half_life: Nanoseconds = seconds(24 * 3_600)
    """After so long a GPU-second counts half: the window of the average, in the way of a decaying one. A guess."""
    lag_weight: int = 100
    """Credit of borrowing work for each nanosecond of its tenant's lag (core/ranking/fair_lag.py), in place of the share of use.
    0, as in the paper: lag gives no credit, and the share counts as for all other work. Chosen so that waiting decides between
    tenants without lag: a day of waiting equals a quarter of an hour of lag."""
    lag_cap: Nanoseconds = seconds(24 * 3_600)
    """The largest lag, positive or negative; lag beyond it is forgotten. A guess: a day, as of waiting."""


class RankingSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Our rules by default; for each there is the one of MAST's paper (§4.2). And the ceilings of the queue, of which the paper has
    none.
    """

    credit: CreditSettings = CreditSettings()
    shares_by_entitlement: bool = True
    """Whether a tenant's use is held against what it is entitled to; else, as in the paper, against all tenants' mean."""
    walks_by_level: bool = True
    """True if a tenant's work of a higher level takes its quota first; false, as in the paper: work with more credit."""
    counts_borrowed: bool = False
    """Whether what a tenant holds over its quota fills it, as in the paper: then its next is over quota too."""
    is_in_passes: bool = False
    """Whether the order is as it was at the newest pass, and what came since waits for the next, as in the paper."""
    quota_patience: Nanoseconds = seconds(24 * 3_600)
    """A workload that has waited for so long, and fits its tenant's quota but not the rest of it, holds the rest against the
    tenant's work behind it; 0, as in the paper: never, and smaller work behind takes the rest. Chosen: a day, because with ten
    minutes to two hours narrow borrowing work was preempted twice as often, and less work completed."""
    gather_percent: int = 0
    """A region is drained for a borrowing workload as old as `age_cap` that wants at most this part of all GPUs of its type, in
    percent; 0, as in the paper, or without `lag_weight`: no region is drained by age. During a drain, at most that much is idle for
    the workload, and on average half of it. 0 until days at a load near 1 have shown for which workloads a drain is worth that
    (docs/decisions/0037-room-gathered-by-age.md)."""
    pass_span: Nanoseconds = seconds(10)
    """The time between passes, the updates of all tenants' use. A guess; the paper's is five minutes."""
    deadlines: DeadlinePolicy = DeadlinePolicy.LLF
    """How work with a deadline is ranked. MAST's paper knows no deadlines."""
    pending_max: int = PENDING_MAX
    """Pending workloads of all tenants beyond which submissions are refused."""
    remembered_max: int = REMEMBERED_MAX
    """Ended workloads that the queue remembers; beyond it the oldest ends are forgotten before their day is over."""

    def ranks_as(self, other: "RankingSettings") -> bool:
        """Return whether both settings give the same order: they differ in ceilings at most."""
        return replace(self, pending_max=other.pending_max, remembered_max=other.remembered_max) == other


DEFAULT_RANKING = RankingSettings()
