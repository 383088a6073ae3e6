"""Scenes of a planner: tasks that were asked for, a solver that answers or does not, and prices that are recorded."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from components.planner.component import Planner
from components.planner.state import Row
from core.component import Decision
from core.effects import Solve
from core.events.prices import PricesSet
from core.messages.prices import SetPrices
from core.messages.solving import Solved, Unsolved
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import Nanoseconds
from core.nouns.limits import PRICES_LOOK
from core.nouns.mix import WEIGHT, Mix, TypicalShape
from core.nouns.prices import Prices
from core.rules.repricing import EVERY, FIRST, SECOND
from tests.builders import EU, EU_LOG, a_job, a_spec, joined, submitted
from tests.components.support.machine import Machine

SHAPE = TypicalShape(gpus=1, cpu_milli=1_000, memory_bytes=1 << 30, node_types=("H100",), weight=WEIGHT)
__all__ = ["EVERY", "FIRST", "SECOND", "SHAPE", "Planning", "asked", "some_prices"]


def some_prices(revision: int = 0, **parts: Any) -> Prices:  # Any: parts of prices
    """Well formed ones."""
    prices = Prices(revision, Mix((SHAPE,)), ((0,), (5,), (9,)), (("H100", 0),), 100)
    return replace(prices, **parts)


def asked(machine: Machine[Any], concern: str, span: Nanoseconds) -> list[Solve]:
    """What a planner's solver is asked for one concern meanwhile."""
    effects = [effect for effect in machine.wait(span).effects if isinstance(effect, Solve)]
    return [effect for effect in effects if effect.concern == concern]


class Planning:
    """One planner of one region, which has eight nodes."""

    def __init__(self, start: Callable[..., Machine[Any]]) -> None:
        self.machine = start(Planner((EU,)))
        self.machine.fact(EU_LOG, joined("w0", 0, 8))
        self.machine.wake()
        self._submitted = 0

    @property
    def arrived(self) -> int:
        """Tasks asked for so far."""
        return int(self.machine.state.queue.demand.arrived)

    @property
    def revision(self) -> int:
        """Of the newest prices in the log."""
        return int(self.machine.state.regions[EU].prices.revision)

    @property
    def row(self) -> Row:
        """Of the region's prices."""
        row = self.machine.state.rows["prices"].by_key[EU]
        assert isinstance(row, Row)
        return row

    def ask_for(self, tasks: int) -> list[Solve]:
        """Until so many have been asked for in all. What the solver is asked when the region is looked at next."""
        self._submitted += 1
        spec = replace(a_spec(a_job(1)), jobs=(a_job(tasks - self.arrived),))
        self.machine.fact(GLOBAL_LOG, submitted(self._submitted, spec=spec))
        return self.wait(PRICES_LOOK)

    def wait(self, span: Nanoseconds) -> list[Solve]:
        """What the solver is asked meanwhile."""
        return asked(self.machine, "prices", span)

    def answer(self, prices: Prices | None = None, revision: int = -1) -> Decision:
        """The solver answers what was asked for now."""
        seen = self.revision if revision < 0 else revision
        return self.machine.hear(Solved("prices", EU, seen, prices or some_prices()))

    def fail(self, *, is_for_good: bool = False) -> Decision:
        """The solver has no answer."""
        return self.machine.hear(Unsolved("prices", EU, self.revision, "out of memory", is_for_good))

    def record(self, command: SetPrices | None = None) -> None:
        """The store records what it was told, or what another planner told it."""
        said = command or self.row.command[0]
        assert isinstance(said, SetPrices)
        self.machine.fact(EU_LOG, PricesSet(said.prices, said.solved_from, said.by))
