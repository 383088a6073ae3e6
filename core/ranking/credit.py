"""The credit of a workload's wait and of its tenant's use, in whole numbers, so that two ways to a credit give equal results.

Use decays: a GPU-second counts half after each half-life. Under steady use, the decayed sum is the half-life / ln 2 times the
number of GPUs, so that the quotient of two tenants' sums is that of two averages over an exponential window.
"""

from msgspec import Struct

from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.ranking import CreditSettings
from core.ranking.decay import BITS, ONE, PER_LN2, left_after

HALF = 1 << 2 * BITS - 1
"""One half of `ONE` squared: added before a shift by 2 * BITS, to round to the nearest."""


def credit(settings: CreditSettings, age: int, use: int, use_all: int, weight: int, weights: int) -> int:
    """Return the credit that orders workloads of one level: more is ahead.

    age       nanoseconds since the submission
    use       the tenant's decayed use in milli-GPU-seconds, >= 0
    use_all   decayed use of all tenants together, this tenant included
    weight    the tenant's weight for a share of all use, > 0
    weights   the sum of all tenants' weights
    returns   credit in the unit of `age_weight`: nanoseconds of waiting where that is 1; may be negative
    source    MAST §4.2, formula (10) + (11), with all weights equal; that (11) divides by the tenants' mean, and not by their
              sum, is a guess: with the sum, the term is about 1 for every tenant
    """
    return age_credit(settings, age) + share_credit(settings, use, use_all, weight, weights)


def age_credit(settings: CreditSettings, age: int) -> int:
    """Return the part of credit that waiting earns, up to the cap: formula (10)."""
    return settings.age_weight * min(age, settings.age_cap)


def share_credit(settings: CreditSettings, use: int, use_all: int, weight: int, weights: int) -> int:
    """Return the part of credit that all workloads of a tenant share: formula (11), rounded up to a whole number.

    A tenant that used twice the share to which its weight entitles is as far below zero as a tenant without use is above. While
    no tenant has any use, each tenant has the whole `share_weight`.
    """
    if use_all == 0:
        return settings.share_weight
    return settings.share_weight - settings.share_weight * use * weights // (use_all * weight)


def lag_credit(settings: CreditSettings, lag: int) -> int:
    """Return the credit that all over-quota work of a tenant shares by lag; negative if the tenant had more than its fair share."""
    return settings.lag_weight * lag


class FadingUse(Struct, frozen=True):
    """A tenant's decayed use up to `at`, and the amount held since."""

    gpu_milli_seconds: int = 0
    """Decayed use up to `at`, in milli-GPU-seconds."""
    gpu_milli: int = 0
    """GPU milli held from `at` on."""
    at: Instant = Instant(0)


def faded(use: FadingUse, now: Instant, half_life: Nanoseconds) -> int:
    """Return the use at an instant that is not before the last change, in milli-GPU-seconds.

    With d = 2 ** (-span / half_life), the use is old * d + held * half_life / ln 2 * (1 - d): the integral of the amount held
    under the decay, so that the number of evaluations does not matter. One rounding to a whole number at the end.
    """
    assert now >= use.at, (now, use.at)
    span = now - use.at
    if not span or not (use.gpu_milli or use.gpu_milli_seconds):
        return use.gpu_milli_seconds
    kept = left_after(span, half_life)
    steady = use.gpu_milli * half_life * PER_LN2 // SECOND
    # old * d + steady * (1 - d)
    found = use.gpu_milli_seconds * kept * ONE + steady * (ONE - kept)
    return (found + HALF) >> 2 * BITS


def charged(use: FadingUse, gpu_milli: int, now: Instant, half_life: Nanoseconds) -> FadingUse:
    """Return the use with another amount held from `now` on; adds at most half a milli-GPU-second of rounding."""
    return FadingUse(faded(use, now, half_life), gpu_milli, now)
