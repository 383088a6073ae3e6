"""Prices as a planner would have them: learned from what has been asked for, solved anew as they grow old, and set by the store.

What is counted, what is solved and when is the planner's own (core/images/demand.py, core/pricing/problem.py, core/rules/repricing.py);
the solver runs between two pods, and what it takes is no part of a decision.
"""

import time
from collections.abc import Callable, Sequence

from bench.support.packing.region import PackingRegion
from core.events.queue import WorkloadSubmitted
from core.fact import Fact
from core.images import GlobalImage
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import Instant
from core.nouns.mix import Mix
from core.nouns.prices import Prices
from core.nouns.workload import JobSpec, WorkloadSpec
from core.pricing.fluid import NodeClass
from core.pricing.problem import problem_of
from core.rules.repricing import next_arrived

Solver = Callable[[Sequence[NodeClass], Mix], Prices]


def solver() -> Solver | None:
    """What solves for prices; None where the extra `planner` is not installed, and then a region goes without."""
    try:
        from runtime.solvers.fluid import solve_prices
    except ImportError:
        return None
    return solve_prices


class Learner:
    """Of one queue, and of the regions that it serves."""

    def __init__(self, regions: Sequence[PackingRegion]) -> None:
        self._regions = regions
        self._queue = GlobalImage.empty(("demand",))
        self._sequence = 0
        self._next = next_arrived(0)
        self._solve = solver()
        self.spans: list[float] = []
        """Seconds that each solution took."""

    def submitted(self, workload: WorkloadId, jobs: tuple[JobSpec, ...]) -> None:
        """It is asked for."""
        self._sequence += 1
        event = WorkloadSubmitted(workload, self._sequence, WorkloadSpec(workload, jobs), "bench")
        self._queue.fold(Fact(GLOBAL_LOG, self._sequence, Instant(0), "", "bench", event))
        demand = self._queue.demand
        if self._solve is None or demand.arrived < self._next:
            return
        self._next = next_arrived(demand.arrived)
        for region in self._regions:
            begun = time.perf_counter()
            problem = problem_of(demand, region.store_state.image.capacity, region.region)
            prices = self._solve(problem.classes, problem.mix)
            self.spans.append(time.perf_counter() - begun)
            region.set_prices(prices)
