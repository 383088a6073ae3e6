"""Prices of each region's capacity: a key is a region.

The queue's image counts the submitted tasks, and each region's image has the count from which the newest prices were solved. Prices
that are old (core/rules/repricing.py) are solved, and sent to the region's store. Without a solver, agents use the prices in the log,
or the default ones.
"""

from msgspec import Struct
from msgspec.structs import replace

from components.planner.loop import Found, LookAgain
from components.planner.state import Pace, PlannerState, Problem, Rows
from core.events.prices import PricesSet
from core.events.queue import WorkloadSubmitted
from core.fact import NO_LOG, Fact
from core.messages.prices import SetPrices
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, region_of
from core.nouns.instant import Instant
from core.nouns.limits import PRICES_LOOK, PRICES_RETRY, PRICES_RETRY_MAX, PRICES_SAID_MAX, PRICES_SPAN
from core.nouns.prices import Prices
from core.nouns.solved_from import SolvedFrom
from core.pricing.problem import problem_of
from core.rules.repricing import is_old, priced_pools


class Pricing:
    """The concern for prices."""

    name = "prices"
    pace = Pace(PRICES_SPAN, PRICES_RETRY, PRICES_RETRY_MAX, PRICES_SAID_MAX, between=PRICES_LOOK)
    of_queue: tuple[str, ...] = ("demand",)
    of_regions: tuple[str, ...] = ("capacity", "pools", "prices")
    unrecorded = "the region's store does not record the prices that were solved"

    def adopted(self, rows: Rows, log: LogName, at: Instant) -> None:
        """Begin a region again; look at all regions once the queue is known."""
        if log == GLOBAL_LOG:
            _all_moved(rows, at)
        else:
            rows.begin(region_of(log), at)

    def follow(self, state: PlannerState, rows: Rows, fact: Fact, at: Instant) -> None:
        """Note that tasks were submitted, or that a region changed."""
        if fact.log == GLOBAL_LOG:
            if isinstance(fact.event, WorkloadSubmitted):
                _all_moved(rows, at)
        elif fact.log != NO_LOG:
            region = region_of(fact.log)
            if isinstance(fact.event, PricesSet):
                rows.recorded(region)
            rows.moved(region, at)

    def look(self, state: PlannerState, key: str, now: Instant) -> Found:
        """Return the pricing problem of a region whose prices are old."""
        region = RegionName(key)
        image, demand = state.regions[region], state.queue.demand
        if not priced_pools(image.capacity, image.pools):
            return LookAgain()
        problem = problem_of(demand, image.capacity, region)
        basis = SolvedFrom(demand.arrived, state.queue_sequence, state.sequences[region], problem.gpu_milli)
        if not problem.mix or not basis.gpu_milli or not is_old(image.prices.solved_from, basis):
            return LookAgain()
        return Problem(image.prices.revision, problem, basis)

    def is_outdated(self, state: PlannerState, key: str, problem: Problem) -> bool:
        """Return False: prices that were solved from fewer tasks are still better than those that they replace."""
        return False

    def command(self, state: PlannerState, key: str, problem: Problem, answer: Struct) -> Found:
        """Return the command to the region's store."""
        assert isinstance(answer, Prices), key
        assert isinstance(problem.basis, SolvedFrom), key
        new = replace(answer, revision=problem.revision + 1)
        return (SetPrices(RegionName(key), new, problem.basis, by="planner"),)


def _all_moved(rows: Rows, at: Instant) -> None:
    for region in rows.by_key:
        rows.moved(region, at)
