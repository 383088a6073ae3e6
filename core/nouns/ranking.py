"""By which rules the queue ranks what waits."""

from msgspec import Struct

from core.nouns.instant import SECOND, Nanoseconds, seconds


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
    """Of what would be over quota: credit for each nanosecond of all that its tenant is entitled to by which it is behind what was
    due to it (core/ranking/fair_lag.py), in place of the share of use. 0: none, and the share as for all other work, as in the paper.
    Chosen so that waiting decides between tenants of whom none is behind: a day of it is a quarter of an hour of lag."""
    lag_cap: Nanoseconds = seconds(24 * 3_600)
    """Nobody is further behind or ahead: what goes beyond is forgotten. A guess: a day, as of waiting."""


class RankingSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Our rules by default; for each there is the one of MAST's paper (§4.2)."""

    credit: CreditSettings = CreditSettings()
    shares_by_entitlement: bool = True
    """Whether a tenant's use is held against what it is entitled to; else, as in the paper, against all tenants' mean."""
    walks_by_level: bool = True
    """Whether of a tenant's work that of a higher level takes its quota first; else, as in the paper, whoever has more credit."""
    counts_borrowed: bool = False
    """Whether what a tenant holds over its quota fills it, as in the paper: then its next is over quota too."""
    is_in_passes: bool = False
    """Whether the order is as it was at the newest pass, and what came since waits for the next, as in the paper."""
    quota_patience: Nanoseconds = seconds(24 * 3_600)
    """Whoever has waited for so long and fits its tenant's quota, but not what is left of it, keeps that from its tenant's work
    behind it; 0, as in the paper: never, and smaller work behind it takes what fits. Chosen: a day. With ten
    minutes to two hours, in half a day of shifting demand, narrow work that ran over quota meanwhile was pushed out twice as often, and
    14 % less was completed."""
    gather_percent: int = 0
    """Room is gathered for who is over quota, as old as `age_cap`, and wants no more than this part of all GPUs of its type, in percent; 0, as in
    the paper, or with no `lag_weight`: for nobody. While it is gathered that much is idle for it at the most, and half of it on the average:
    with 2, in 80 hours of a planet that is asked for 1.4 times what it has, a third of a percent. 0 until days at a load near 1 have shown
    whom it is worth that (docs/decisions/0037-room-gathered-by-age.md)."""
    pass_span: Nanoseconds = seconds(10)
    """How often everybody's use is brought up to date: a pass. A guess; the paper's is five minutes."""


DEFAULT_RANKING = RankingSettings()
