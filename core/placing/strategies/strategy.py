"""What a strategy reads of each partition, and what it says: which partitions an agent looks at first for a request."""

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]


class Candidates:
    """The partitions of a region for one request, as an agent believes them.

    has_capacity  (P,) whether some node has capacity for a task
    tier          (P,) tier of the best such node, as the class of the request has it: 0 is best
    fresh         (P,) grows with the time at which the partition was taken in; the present round's partitions are the freshest
    mean_cost     (P,) mean score of the nodes with capacity, lower is better; computed when first read
    is_late       whether requests have waited for long (adaptive.py)
    """

    def __init__(
        self,
        has_capacity: Flags,
        tier: Numbers,
        fresh: Numbers,
        mean_cost: Callable[[], NDArray[np.float64]],
        *,
        is_late: bool = False,
    ) -> None:
        self.has_capacity, self.tier, self.fresh = has_capacity, tier, fresh
        self.is_late = is_late
        self._mean_cost = mean_cost

    @cached_property
    def mean_cost(self) -> NDArray[np.float64]:
        """(P,) Mean scores."""
        return self._mean_cost()


class Strategy(Protocol):
    """One way to order partitions."""

    def __call__(self, candidates: Candidates) -> Flags:
        """Return (P,) the partitions that come first, of those with capacity; none if none has capacity.

        Of several, an agent takes one of its own (core/placing/partition_search.py `Knowledge.one_of`).
        """


def least(among: Flags, values: Numbers | NDArray[np.float64]) -> Flags:
    """Return (P,) those of some partitions with the least value."""
    if not among.any():
        return among
    found: Flags = among & (values == values[among].min())
    return found
