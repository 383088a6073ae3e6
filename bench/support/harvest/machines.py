"""Machines of which functions use what is harvested, and the harvester's words to their servers and to the router.

The book of a machine is the one of simulated worlds (scenarios/worlds/function_books.py), without a task unless a benchmark writes one.
"""

from collections.abc import Callable, Mapping

from bench.support.functions.stage import REGION, ROUTER, Stage
from core.messages.harvest import HarvestOdds, NodeSize, SizeServer
from core.nouns.function_limits import ODDS_STALE
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.quantities import Amount
from runtime.clock import Clock
from runtime.functions.emulated import BookSource
from runtime.spool import EmulatedSpool
from scenarios.worlds.function_books import NodesBook

GRACE = seconds(30)
"""Warning before capacity is taken. source: spec/cameo-harvest.md 2.1"""
ODDS_EVERY = Nanoseconds(ODDS_STALE // 3)


def machine_names(count: int) -> list[str]:
    """Return the names of so many machines."""
    return [f"h{number}" for number in range(count)]


def machine_books(clock: Clock, count: int) -> dict[str, NodesBook]:
    """Return the books of so many machines, each of one node, of which nothing is harvested yet."""
    return {name: NodesBook(EmulatedSpool(name, clock), clock) for name in machine_names(count)}


def as_sources(books: Mapping[str, NodesBook]) -> dict[str, BookSource]:
    """Return books as function servers use them."""
    return dict(books)


class Harvester:
    """Says sizes to servers, and odds to the router, as a region's harvester does. Machines have one node each, numbered in order."""

    def __init__(self, stage: Stage, totals: Mapping[str, Amount], recalls: Callable[[], int]) -> None:
        """Take the machines, and how often a node of theirs is recalled in an hour as far as is known, in millionths."""
        self._stage = stage
        self._totals = totals
        self._nodes = {name: number for number, name in enumerate(totals)}
        self._recalls = recalls
        self._revision = 0
        self._tell_odds()

    def offer(self, sizes: Mapping[str, Amount]) -> None:
        """Let functions use so much of some machines from now on; less than before has the grace."""
        self._revision += 1
        for name, size in sizes.items():
            one = NodeSize(self._nodes[name], self._totals[name], size, GRACE)
            self._stage.carry(SizeServer(REGION, name, self._revision, (one,)))

    def _tell_odds(self) -> None:
        self._stage.carry(HarvestOdds(REGION, ROUTER, self._recalls(), GRACE))
        self._stage.loop.call_after_ns(ODDS_EVERY, self._tell_odds)
