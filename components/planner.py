"""The planner: what takes thinking, beside the fast path. Today that is one thing, the prices of each region.

It owns nothing. The tasks that were asked for are counted in the queue's image, and how many of them the newest prices know of
stands in the region's; when those are old (core/rules/repricing.py) it asks its solver for others, and says these to the
region's store until the log shows them, or others. Whatever it forgets by dying is only solved again, and of two planners the
first is heard, for prices carry the revision that follows on the one they replace.

    old         the solver is asked; its answer is a message
    solved      the store is told, again and again
    failed      what there is stays; it is solved again later, later each time
    no solver   nothing is ever solved by this process; agents go by the prices that there are, or by the default ones
"""

from msgspec import Struct
from msgspec.structs import replace

from core.agenda import Agenda
from core.component import NOTHING, Decision, Effect, Follow, ImageAdopted, Images
from core.effects import SolvePrices
from core.events.prices import PricesSet
from core.events.queue import WorkloadSubmitted
from core.fact import NO_LOG, Fact, Note
from core.images import GlobalImage, Image, RegionImage
from core.messages.base import Envelope, Message, Woken
from core.messages.prices import PricesSolved, PricesUnsolved, SetPrices
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, region_log, region_of
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

SECTIONS = ("capacity", "pools", "prices")


class Looked(Note, frozen=True):
    """A region's prices were looked at, and are not old; or there is nothing to solve."""

    region: RegionName


class SolveBegun(Note, frozen=True):
    """The solver was asked."""

    region: RegionName
    revision: int
    """Of the prices that are to be replaced."""
    solved_from: SolvedFrom


class Solved(Note, frozen=True):
    """The solver answered: this is to be said to the store."""

    command: SetPrices


class SaidAgain(Note, frozen=True):
    """The store has not recorded it yet."""

    region: RegionName


class GivenUp(Note, frozen=True):
    """The solver failed or did not answer, or the store recorded nothing."""

    region: RegionName
    is_for_good: bool = False
    """Whether there is no solver."""


class RegionRow(Struct):
    """What one region's prices have come to."""

    solving: SolveBegun | None = None
    command: SetPrices | None = None
    said: int = 0
    """Times that the store was told it."""
    failures: int = 0
    """In a row."""
    looked_at: Instant | None = None


class PlannerState:
    """What was asked for, each region's room and prices, and what is under way."""

    def __init__(self) -> None:
        self.queue = GlobalImage.empty(("demand",))
        self.queue_sequence = 0
        self.regions: dict[RegionName, RegionImage] = {}
        self.sequences: dict[RegionName, int] = {}
        self.rows: dict[RegionName, RegionRow] = {}
        self.looks: Agenda[RegionName] = Agenda()
        self.has_solver = True


class Planner:
    """One planner of all regions."""

    name = "planner"
    noun = "planner"
    scope: tuple[str, ...] = ()
    keeps: LogName | None = None
    hears: tuple[type[Message], ...] = (PricesSolved, PricesUnsolved)

    def __init__(self, regions: tuple[RegionName, ...]) -> None:
        self.follows = (
            Follow(GLOBAL_LOG, ("demand",), is_required=False),
            *(Follow(region_log(region), SECTIONS, is_required=False) for region in sorted(regions)),
        )

    def initial(self, images: Images) -> PlannerState:
        """Every region that is known is to be looked at."""
        state = PlannerState()
        for log, (image, sequence) in images.followed.items():
            self._adopt(state, log, image, sequence, images.at)
        return state

    def due(self, state: PlannerState) -> Instant | None:
        """The next look at a region."""
        return state.looks.due() if state.has_solver else None

    def decide(self, state: PlannerState, envelope: Envelope) -> Decision:
        """Look at regions, or take the solver's answer."""
        match envelope.message:
            case Woken():
                return self._woken(state, envelope.at)
            case PricesSolved():
                return self._solved(state, envelope.message)
            case PricesUnsolved(region, revision, _, is_for_good):
                if not _is_awaited(state, region, revision):
                    return NOTHING
                return Decision((GivenUp(region, is_for_good),))
        return NOTHING

    # Folding.

    def evolve(self, state: PlannerState, fact: Fact) -> PlannerState:
        """Fold a fact of the queue or of a region, or a note."""
        if fact.log == NO_LOG:
            self._note(state, fact)
        elif fact.log == GLOBAL_LOG:
            state.queue.fold(fact)
            state.queue_sequence = fact.sequence
            if isinstance(fact.event, WorkloadSubmitted):
                for region in state.rows:
                    _look_soon(state, region, fact.heard_at)
        else:
            region = region_of(fact.log)
            state.regions[region].fold(fact)
            state.sequences[region] = fact.sequence
            if isinstance(fact.event, PricesSet):
                state.rows[region] = RegionRow(looked_at=state.rows[region].looked_at)
                state.looks.drop(region)
            _look_soon(state, region, fact.heard_at)
        return state

    def _note(self, state: PlannerState, fact: Fact) -> None:
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
            case ImageAdopted(log, image, sequence):
                self._adopt(state, log, image, sequence, fact.at)

    def _adopt(self, state: PlannerState, log: LogName, image: Image, sequence: int, at: Instant) -> None:
        """What is under way for a region is forgotten: its history is another."""
        if isinstance(image, GlobalImage):
            state.queue, state.queue_sequence = image, sequence
            for region in state.rows:
                _look_soon(state, region, at)
            return
        assert isinstance(image, RegionImage), log
        region = region_of(log)
        state.regions[region], state.sequences[region] = image, sequence
        state.rows[region] = RegionRow()
        state.looks.put(region, at)

    # Deciding.

    def _woken(self, state: PlannerState, now: Instant) -> Decision:
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
        """Whether its prices are old, and if so what is to be solved."""
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

    def _solved(self, state: PlannerState, answer: PricesSolved) -> Decision:
        if not _is_awaited(state, answer.region, answer.revision):
            return NOTHING  # Late, or repeated: others were set meanwhile, or are being solved.
        begun = state.rows[answer.region].solving
        assert begun is not None, answer.region
        prices = replace(answer.prices, revision=begun.revision + 1)
        command = SetPrices(answer.region, prices, begun.solved_from, self.name)
        return Decision((Solved(command),), (command,))


def _is_awaited(state: PlannerState, region: RegionName, revision: int) -> bool:
    """Whether it answers what the solver was asked last of this region."""
    row = state.rows.get(region)
    return row is not None and row.solving is not None and row.solving.revision == revision


def _look_soon(state: PlannerState, region: RegionName, now: Instant) -> None:
    """Something changed: it is looked at, but not more often than is meant."""
    if region in state.looks:
        return
    looked_at = state.rows[region].looked_at
    soonest = now if looked_at is None else after(looked_at, PRICES_LOOK)
    state.looks.put(region, max(now, soonest))
