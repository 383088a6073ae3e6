"""The planner's loop for the prices of each region.

The queue's image counts the submitted tasks, and each region's image has the count from which the newest prices were solved. When
prices are old (core/rules/repricing.py), the planner asks the solver for new ones and sends these to the region's store until the
log shows them, or other prices.

    old         the solver is asked; the answer arrives as a message
    solved      the prices are sent to the store, at most PRICES_SAID_MAX times
    failed      the present prices stay; they are solved again later, with longer waits after each failure
    no solver   this process solves no prices; agents use the prices in the log, or the default ones
"""

from msgspec.structs import replace

from components.planner.state import PlannerState, RegionRow, SolveBegun
from core.component import NOTHING, Decision, Effect
from core.effects import SolvePrices
from core.events.prices import PricesSet
from core.events.queue import WorkloadSubmitted
from core.fact import Fact, Note
from core.messages.base import Message
from core.messages.prices import PricesSolved, PricesUnsolved, SetPrices
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, region_of
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import (
    COMMAND_SAY_AGAIN,
    PRICES_LOOK,
    PRICES_RETRY,
    PRICES_RETRY_MAX,
    PRICES_SAID_MAX,
    PRICES_SPAN,
)
from core.nouns.solved_from import SolvedFrom
from core.pricing.problem import PricingProblem, problem_of
from core.rules.repricing import is_old, priced_pools


class Looked(Note, frozen=True):
    """A region's prices were checked and are not old, or there is no problem to solve."""

    region: RegionName


class Solved(Note, frozen=True):
    """The solver answered, and the command was sent to the store."""

    command: SetPrices


class SaidAgain(Note, frozen=True):
    """The command was sent again, because the store has not recorded the prices."""

    region: RegionName


class GivenUp(Note, frozen=True):
    """The solver failed or did not answer, or the store did not record the prices."""

    region: RegionName
    is_for_good: bool = False
    """True if this process has no solver."""


class Pricing:
    """Deciders and folds for prices."""

    name = "planner"

    # Folding.

    def fold(self, state: PlannerState, fact: Fact) -> None:
        """Follow a fact of the queue or of a region, after the image has folded it."""
        if fact.log == GLOBAL_LOG:
            if isinstance(fact.event, WorkloadSubmitted):
                for region in state.rows:
                    _look_soon(state, region, fact.heard_at)
            return
        region = region_of(fact.log)
        if isinstance(fact.event, PricesSet):
            state.rows[region] = RegionRow(looked_at=state.rows[region].looked_at)
            state.looks.drop(region)
        _look_soon(state, region, fact.heard_at)

    def note(self, state: PlannerState, fact: Fact) -> None:
        """Fold a note about prices; ignore others."""
        match fact.event:
            case Looked(region):
                state.rows[region].looked_at = fact.at
                state.looks.drop(region)
            case SolveBegun(region):
                row = state.rows[region]
                row.looked_at, row.solving = fact.at, fact.event
                state.looks.put(region, after(fact.at, PRICES_SPAN))
            case Solved(command):
                row = state.rows[command.region]
                row.solving, row.command, row.said = None, command, 1
                state.looks.put(command.region, after(fact.at, COMMAND_SAY_AGAIN))
            case SaidAgain(region):
                state.rows[region].said += 1
                state.looks.put(region, after(fact.at, COMMAND_SAY_AGAIN))
            case GivenUp(region, is_for_good):
                row = state.rows[region]
                wait = min(PRICES_RETRY << row.failures, PRICES_RETRY_MAX)
                state.rows[region] = RegionRow(failures=min(row.failures + 1, 32), looked_at=fact.at)
                state.looks.put(region, after(fact.at, Nanoseconds(wait)))
                state.has_solver = not is_for_good

    def adopt(self, state: PlannerState, log: LogName, at: Instant) -> None:
        """Follow an image that was adopted; a region's requests under way are forgotten, because its log may have another history."""
        if log == GLOBAL_LOG:
            for region in state.rows:
                _look_soon(state, region, at)
            return
        state.rows[region_of(log)] = RegionRow()
        state.looks.put(region_of(log), at)

    def due(self, state: PlannerState) -> Instant | None:
        """Return the time of the next look at a region; None without a solver."""
        return state.looks.due() if state.has_solver else None

    # Deciding.

    def unsolved(self, state: PlannerState, answer: PricesUnsolved) -> Decision:
        """Note that the solver has no answer, if one is awaited."""
        if not _is_awaited(state, answer.region, answer.revision):
            return NOTHING
        return Decision((GivenUp(answer.region, answer.is_for_good),))

    def woken(self, state: PlannerState, now: Instant) -> Decision:
        """Look at the regions that are due."""
        notes: list[Note] = []
        messages: list[Message] = []
        effects: list[Effect] = []
        for region in state.looks.passed(now):
            row = state.rows[region]
            if row.command is not None and row.said < PRICES_SAID_MAX:
                messages.append(row.command)
                notes.append(SaidAgain(region))
            elif row.command is not None or row.solving is not None:
                notes.append(GivenUp(region))
            else:
                begun, problem = self._look(state, region)
                notes.append(begun)
                if problem is not None and isinstance(begun, SolveBegun):
                    effects.append(SolvePrices(region, begun.revision, problem))
        return Decision(tuple(notes), tuple(messages), tuple(effects))

    def _look(
        self, state: PlannerState, region: RegionName
    ) -> tuple[SolveBegun | Looked, PricingProblem | None]:
        """Return the note of a look at a region's prices, and the problem to solve if they are old."""
        image, demand = state.regions[region], state.queue.demand
        if not priced_pools(image.capacity, image.pools):
            return Looked(region), None
        problem = problem_of(demand, image.capacity, region)
        now = SolvedFrom(
            demand.arrived,
            state.queue_sequence,
            state.sequences[region],
            problem.gpu_milli,
        )
        if not problem.mix or not now.gpu_milli or not is_old(image.prices.solved_from, now):
            return Looked(region), None
        return SolveBegun(region, image.prices.revision, now), problem

    def solved(self, state: PlannerState, answer: PricesSolved) -> Decision:
        """Send the prices that the solver found to the region's store."""
        if not _is_awaited(state, answer.region, answer.revision):
            return NOTHING  # Late or repeated: other prices were set meanwhile, or are being solved.
        begun = state.rows[answer.region].solving
        assert begun is not None, answer.region
        prices = replace(answer.prices, revision=begun.revision + 1)
        command = SetPrices(answer.region, prices, begun.solved_from, self.name)
        return Decision((Solved(command),), (command,))


def _is_awaited(state: PlannerState, region: RegionName, revision: int) -> bool:
    """Return whether an answer is to the newest request for the region's prices."""
    row = state.rows.get(region)
    return row is not None and row.solving is not None and row.solving.revision == revision


def _look_soon(state: PlannerState, region: RegionName, now: Instant) -> None:
    """Schedule a look at a changed region, at most one in `PRICES_LOOK`."""
    if region in state.looks:
        return
    looked_at = state.rows[region].looked_at
    soonest = now if looked_at is None else after(looked_at, PRICES_LOOK)
    state.looks.put(region, max(now, soonest))
