"""The planner, as the host runs it: its loops, side by side."""

from components.planner.prices import Pricing
from components.planner.shares import Sharing
from components.planner.state import OF_QUEUE, PlannerState
from core.component import NOTHING, Decision, Follow, ImageAdopted, Images
from core.fact import NO_LOG, Fact
from core.images import GlobalImage, Image, RegionImage
from core.messages.base import Envelope, LogHeard, LogSilent, Message, Woken
from core.messages.prices import PricesSolved, PricesUnsolved
from core.messages.sharing import SharesSolved, SharesUnsolved, ShowShares
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, region_log, region_of
from core.nouns.instant import Instant, earliest

SECTIONS = ("attempts", "capacity", "pools", "prices")


class Planner:
    """One planner of all regions."""

    name = "planner"
    noun = "planner"
    scope: tuple[str, ...] = ()
    keeps: LogName | None = None
    hears: tuple[type[Message], ...] = (
        PricesSolved,
        PricesUnsolved,
        SharesSolved,
        SharesUnsolved,
        ShowShares,
        LogSilent,
        LogHeard,
    )

    def __init__(self, regions: tuple[RegionName, ...]) -> None:
        self.follows = (
            Follow(GLOBAL_LOG, OF_QUEUE, is_required=False),
            *(Follow(region_log(region), SECTIONS, is_required=False) for region in sorted(regions)),
        )
        self._pricing, self._sharing = Pricing(), Sharing()

    def initial(self, images: Images) -> PlannerState:
        """Return a state in which every known region is due."""
        state = PlannerState()
        for log, (image, sequence) in images.followed.items():
            self._adopt(state, log, image, sequence, images.at)
        return state

    def due(self, state: PlannerState) -> Instant | None:
        """Return the time of the next look; None without a solver."""
        return earliest(self._pricing.due(state), self._sharing.due(state))

    def decide(self, state: PlannerState, envelope: Envelope) -> Decision:
        """Look at the loop that is due, or take the solver's answer."""
        match envelope.message:
            case Woken():
                prices = self._pricing.woken(state, envelope.at)
                return prices if prices.events else self._sharing.woken(state, envelope.at)
            case PricesSolved():
                return self._pricing.solved(state, envelope.message)
            case PricesUnsolved():
                return self._pricing.unsolved(state, envelope.message)
            case SharesSolved():
                return self._sharing.solved(state, envelope.message, envelope.at)
            case SharesUnsolved():
                return self._sharing.unsolved(state, envelope.message, envelope.at)
            case LogSilent() | LogHeard():
                return self._sharing.silence(state, envelope.message)
            case ShowShares():
                return self._sharing.shown(state, envelope.at)
        return NOTHING

    def evolve(self, state: PlannerState, fact: Fact) -> PlannerState:
        """Fold a fact of the queue or of a region, or a note."""
        if fact.log == NO_LOG:
            if isinstance(fact.event, ImageAdopted):
                self._adopt(state, fact.event.log, fact.event.image, fact.event.sequence, fact.at)
            self._pricing.note(state, fact)
            self._sharing.note(state, fact)
            return state
        if fact.log == GLOBAL_LOG:
            state.queue.fold(fact)
            state.queue_sequence = fact.sequence
        else:
            region = region_of(fact.log)
            state.regions[region].fold(fact)
            state.sequences[region] = fact.sequence
        self._pricing.fold(state, fact)
        self._sharing.fold(state, fact)
        return state

    def _adopt(self, state: PlannerState, log: LogName, image: Image, sequence: int, at: Instant) -> None:
        if isinstance(image, GlobalImage):
            state.queue, state.queue_sequence = image, sequence
        else:
            assert isinstance(image, RegionImage), log
            region = region_of(log)
            state.regions[region], state.sequences[region] = image, sequence
        self._pricing.adopt(state, log, at)
        self._sharing.adopt(state, at)
