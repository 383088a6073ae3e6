"""What a workload's wait and its tenant's use are worth, in whole numbers, so that two ways to the same credit are equal.

Use fades: a GPU-second counts half after each half-life. Under a steady use such a sum is the half-life / ln 2 times the number
of GPUs, so that the quotient of two tenants' sums is that of two averages over an exponential window.
"""

from msgspec import Struct

from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.ranking import CreditSettings
from core.ranking.decay import BITS, ONE, PER_LN2, left_after

HALF = 1 << 2 * BITS - 1
"""To round to the nearest."""


def credit(settings: CreditSettings, age: int, use: int, use_all: int, weight: int, weights: int) -> int:
    """What orders workloads of one level: more is ahead.

    age       nanoseconds since the submission
    use       of its tenant, faded, in milli-GPU-seconds, >= 0
    use_all   of all tenants together, its own among them
    weight    to what part of all use its tenant is entitled, > 0
    weights   of all tenants together
    returns   credit in the unit of `age_weight`: nanoseconds of waiting where that is 1; may be negative
    source    MAST §4.2, formula (10) + (11), with all weights alike; that (11) divides by the tenants' mean, and not their
              sum, is a guess, since with the sum the term is about 1 for everybody
    """
    return age_credit(settings, age) + share_credit(settings, use, use_all, weight, weights)


def age_credit(settings: CreditSettings, age: int) -> int:
    """The part that waiting earns, up to the cap: formula (10)."""
    return settings.age_weight * min(age, settings.age_cap)


def share_credit(settings: CreditSettings, use: int, use_all: int, weight: int, weights: int) -> int:
    """The part that all workloads of a tenant have alike: formula (11), rounded up to a whole number.

    Who used twice the part to which its weight entitles it has as much less than nothing as who used none of it has more. Where
    nobody used anything everybody has the whole weight.
    """
    if use_all == 0:
        return settings.share_weight
    return settings.share_weight - settings.share_weight * use * weights // (use_all * weight)


def lag_credit(settings: CreditSettings, lag: int) -> int:
    """The part that all work over quota of a tenant has alike where it goes by lag; negative for who had more than was due."""
    return settings.lag_weight * lag


class FadingUse(Struct, frozen=True):
    """What a tenant used, with old use counting less, and what it holds since."""

    gpu_milli_seconds: int = 0
    """Faded use up to `at`: milli-GPU-seconds."""
    gpu_milli: int = 0
    """Held from `at` on."""
    at: Instant = Instant(0)


def faded(use: FadingUse, now: Instant, half_life: Nanoseconds) -> int:
    """The use at an instant that is not before the last change, in milli-GPU-seconds.

    With d = 2 ** (-span / half_life) it is old * d + held * half_life / ln 2 * (1 - d): the integral of what is held under the
    decay, so that it does not matter how often it is asked. One rounding to a whole number at the end.
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
    """The use from when the tenant holds so much instead; adds at most half a milli-GPU-second of rounding."""
    return FadingUse(faded(use, now, half_life), gpu_milli, now)
