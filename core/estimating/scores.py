"""How right predictions were: how far the newest of one sort were off, as ratios."""

import math

from msgspec import Struct, field

from core.nouns.instant import Nanoseconds
from core.nouns.limits import ERRORS_KEPT_MAX

THOUSAND = 1_000


class Errors(Struct):
    """Of the newest predictions of one sort."""

    ratios: list[int] = field(default_factory=list)
    """What came by what was predicted, as a thousand times its logarithm to the base 2, the newest last."""
    count: int = 0
    """How many ever."""

    def add(self, expected: Nanoseconds, came: Nanoseconds) -> None:
        """One more."""
        self.count += 1
        self.ratios.append(log_ratio(came, expected))
        del self.ratios[:-ERRORS_KEPT_MAX]

    def factor(self) -> float:
        """By which half of them were off at most, up or down: 2 to the median of the absolute logarithms; 1 is exact."""
        sizes = sorted(abs(ratio) for ratio in self.ratios)
        return float(2 ** (sizes[(len(sizes) - 1) // 2] / THOUSAND)) if sizes else 1.0


def log_ratio(one: int, other: int) -> int:
    """A thousand times the logarithm to the base 2 of one span by another, each a nanosecond at least, as a whole number."""
    return round(THOUSAND * math.log2(max(1, one) / max(1, other)))
