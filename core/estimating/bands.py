"""How far off estimates of starts are, learnt from what came: the band within which four of five starts are to lie.

An estimate begins as a span that a model says (core/estimating/waits.py). Spans of like length make a group. Of each group the
newest starts are remembered, by what they came to by what the model had said. Their middle is what is told, and the band reaches
as far as four of five of them did.

Errors come in crowds: of a thousand workloads that one tenant submits within a minute all start later than said, or none. So of
those that are submitted within a minute one is remembered, for the band to know many crowds instead of the last. Which one is said
at the submission: of a crowd that came, the first to start are those that waited least. And the share of either side
that the band leaves out is not fixed: it shrinks with each start that was missed there, and grows a little with each other one
(adaptive conformal inference), so that a tenth lies on either side in the long run whatever the errors are like.

All is whole numbers but for the logarithms: as thousandths of an octave, rounded.

source    Gibbs & Candès, Adaptive Conformal Inference Under Distribution Shift (NeurIPS 2021), with a step for each side; the
          figures were tried on 40,000 jobs of a public trace (docs/decisions/0025-when-it-will-start.md)
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field

from core.estimating.scores import THOUSAND, log_ratio
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, seconds
from core.nouns.limits import BAND_RATIOS_MAX, BAND_SAMPLE_INTERVAL

MILLION = 1_000_000
ASIDE = 100_000
"""Millionths of the starts that are to lie on either side of the band: eight of ten are inside."""
ASIDE_AT_FIRST = 50_000
"""So that a band is too wide rather than too narrow as long as little is known."""
ASIDE_BOUNDS = (1_000, 400_000)
STEP = 1_000
"""By how many millionths of itself a miss moves the share that is left out, less those of a hit."""
RATIOS_FEW = 8
"""Of fewer there is no middle."""
RATIOS_FOR_A_BAND = 20
"""Of fewer a group asks the others; the middle of 20 leaves one on either side of nine tenths."""
AT_FIRST = 3 * THOUSAND
"""With nothing known: an eighth to eightfold."""
BEYOND = THOUSAND
"""What lies outside of all samples is taken to be twice as far."""
FLOOR = 10 * MILLISECOND
"""Added to spans before they are compared: a start within a moment is a matter of milliseconds."""
FARTHEST: Nanoseconds = seconds(366 * 86_400)
"""Neither a middle nor the end of a band is told to be later: what is a year away nobody knows, and 64 bits hold it."""
NOW = "now"
LENGTHS: tuple[tuple[Nanoseconds, str], ...] = ((seconds(60), "1m"), (seconds(960), "16m"))
WIDE_GPU_MILLI = 8_000
"""More than this is wide: it needs several nodes where a node has 8 GPUs, and narrow work passes it."""


class StartEstimate(Struct, frozen=True):
    """When a workload starts, counted from the moment of the estimate: from when its gang is up."""

    span: Nanoseconds
    """What the model says."""
    low: Nanoseconds
    middle: Nanoseconds
    high: Nanoseconds
    """Four of five starts are to lie between `low` and `high`."""
    group: str
    """Of estimates that are alike."""


class Group(Struct):
    """Estimates that are alike, and what came of them."""

    ratios: list[int] = field(default_factory=list)
    """What came by what the model had said, as a thousand times its logarithm to the base 2: one in a minute, the newest last."""
    sampled_at: Instant = Instant(0)
    """When the newest was submitted that is to be remembered."""
    below: int = ASIDE_AT_FIRST
    """Millionths that the band leaves out below."""
    above: int = ASIDE_AT_FIRST


class Reach(NamedTuple):
    """Where the middle and the ends of a group's bands are, by what the model says: in thousandths of an octave."""

    middle: int
    low: int
    high: int


class Bands(Struct):
    """Every group."""

    groups: dict[str, Group] = field(default_factory=dict)

    def around(self, span: Nanoseconds, gpu_milli: int) -> StartEstimate:
        """What the model says, set right and with its band."""
        name = group_of(span, gpu_milli)
        return estimate_of(span, name, self.reach(name))

    def reach(self, name: str) -> "Reach":
        """Of a group's bands, now."""
        group = self.groups.get(name) or Group()
        ratios = self._enough(name, group.ratios)
        middle = ratios[(len(ratios) - 1) // 2] if len(ratios) >= RATIOS_FEW else 0
        low, high = middle - AT_FIRST, middle + AT_FIRST
        if len(ratios) >= RATIOS_FOR_A_BAND:
            low, high = _quantiles(ratios, group.below, group.above)
        return Reach(middle, min(middle, low), max(middle, high))

    def said(self, estimate: StartEstimate, at: Instant) -> bool:
        """It was told to whoever submitted. Returns whether what comes of it is to be remembered."""
        group = self.groups.setdefault(estimate.group, Group())
        is_sampled = not group.sampled_at or at - group.sampled_at >= BAND_SAMPLE_INTERVAL
        if is_sampled:
            group.sampled_at = at
        return is_sampled

    def unsaid(self, estimate: StartEstimate) -> None:
        """Nothing will come of one that was to be remembered: the next is, in its place."""
        self.groups.setdefault(estimate.group, Group()).sampled_at = Instant(0)

    def came(self, estimate: StartEstimate, waited: Nanoseconds, *, is_sampled: bool) -> int:
        """It started after so long. Returns -1 for sooner than the band, 1 for later, and 0 for inside."""
        group = self.groups.setdefault(estimate.group, Group())
        is_below, is_above = waited < estimate.low, waited > estimate.high
        group.below = _moved(group.below, has_missed=is_below)
        group.above = _moved(group.above, has_missed=is_above)
        if is_sampled:
            group.ratios.append(log_ratio(waited + FLOOR, estimate.span + FLOOR))
            del group.ratios[:-BAND_RATIOS_MAX]
        return is_above - is_below

    def _enough(self, name: str, mine: list[int]) -> list[int]:
        """A group's own, in order; of too few, those of all groups that have to wait, or of all that have not."""
        if len(mine) >= RATIOS_FOR_A_BAND:
            return sorted(mine)
        is_now = name.startswith(NOW)
        return sorted(
            one
            for other, group in self.groups.items()
            if other.startswith(NOW) == is_now
            for one in group.ratios
        )


def group_of(span: Nanoseconds, gpu_milli: int) -> str:
    """Of like spans, and narrow or wide."""
    waits = next((name for longest, name in LENGTHS if span <= longest), "longer")
    length = waits if span > 0 else NOW
    return f"{length}, wide" if gpu_milli > WIDE_GPU_MILLI else length


def estimate_of(span: Nanoseconds, name: str, reach: Reach) -> StartEstimate:
    """What a model said of one of a group, set right and with its band."""
    low, middle, high = (_times(span, octaves) for octaves in (reach.low, reach.middle, reach.high))
    return StartEstimate(span, low, middle, high, name)


def _quantiles(ordered: Sequence[int], below: int, above: int) -> tuple[int, int]:
    """So many millionths of what is to come lie below the first and above the second."""
    count = len(ordered)
    first = (count + 1) * below // MILLION - 1
    last = -(-(count + 1) * (MILLION - above) // MILLION) - 1
    low = ordered[first] if first >= 0 else ordered[0] - BEYOND
    return low, ordered[last] if last < count else ordered[-1] + BEYOND


def _times(span: Nanoseconds, octaves: int) -> Nanoseconds:
    """A span so many thousandths of an octave longer, but never longer than anything is told to take."""
    longest = math.log2(FARTHEST / (span + FLOOR))
    if octaves >= THOUSAND * longest:
        return FARTHEST
    return Nanoseconds(max(0, round((span + FLOOR) * 2.0 ** (octaves / THOUSAND)) - FLOOR))


def _moved(aside: int, *, has_missed: bool) -> int:
    least, most = ASIDE_BOUNDS
    step = (ASIDE - MILLION * has_missed) * STEP // MILLION
    return min(most, max(least, aside + step))
