"""The planner, as the host runs it: its concerns, side by side on one loop."""

from collections.abc import Sequence

from components.planner.concerns import CONCERNS
from components.planner.loop import Concern, Loop
from components.planner.state import PlannerState, RegionSilent
from core.component import NOTHING, Decision, Follow, ImageAdopted, Images
from core.fact import NO_LOG, Fact
from core.images import GlobalImage, Image, RegionImage
from core.messages.base import Envelope, LogHeard, LogSilent, Message, Woken
from core.messages.planning import ShowConcern
from core.messages.solving import Solved, Unsolved
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, region_log, region_of
from core.nouns.instant import Instant


class Planner:
    """One planner of all regions."""

    name = "planner"
    noun = "planner"
    scope: tuple[str, ...] = ()
    keeps: LogName | None = None
    hears: tuple[type[Message], ...] = (Solved, Unsolved, ShowConcern, LogSilent, LogHeard)

    def __init__(self, regions: tuple[RegionName, ...], concerns: Sequence[Concern] = CONCERNS) -> None:
        self._loop = Loop(concerns)
        self._of_queue = tuple(sorted({section for concern in concerns for section in concern.of_queue}))
        of_regions = tuple(sorted({section for concern in concerns for section in concern.of_regions}))
        self.follows = (
            Follow(GLOBAL_LOG, self._of_queue, is_required=False),
            *(Follow(region_log(region), of_regions, is_required=False) for region in sorted(regions)),
        )

    def initial(self, images: Images) -> PlannerState:
        """Return a state in which every concern is due in all that is known."""
        paces = {name: concern.pace for name, concern in self._loop.concerns.items()}
        state = PlannerState(self._of_queue, paces)
        for log, (image, sequence) in images.followed.items():
            self._adopt(state, log, image, sequence, images.at)
        return state

    def due(self, state: PlannerState) -> Instant | None:
        """Return the time of the next look of any concern."""
        return self._loop.due(state)

    def decide(self, state: PlannerState, envelope: Envelope) -> Decision:
        """Look at all that is due, or take the solver's answer."""
        message = envelope.message
        match message:
            case Woken():
                return self._loop.woken(state, envelope.at)
            case Solved() | Unsolved():
                return self._loop.answered(state, message, envelope.at)
            case LogSilent() | LogHeard():
                return _silence(state, message)
            case ShowConcern():
                return self._loop.status(state, message, envelope.at)
        return NOTHING

    def evolve(self, state: PlannerState, fact: Fact) -> PlannerState:
        """Fold a fact of the queue or of a region, or a note."""
        event = fact.event
        match event:
            case ImageAdopted():
                self._adopt(state, event.log, event.image, event.sequence, fact.at)
                return state
            case RegionSilent():
                state.silent[event.region] = event.is_silent
        if fact.log == GLOBAL_LOG:
            state.queue.fold(fact)
            state.queue_sequence = fact.sequence
        elif fact.log != NO_LOG:
            region = region_of(fact.log)
            state.regions[region].fold(fact)
            state.sequences[region] = fact.sequence
        self._loop.fold(state, fact)
        return state

    def _adopt(self, state: PlannerState, log: LogName, image: Image, sequence: int, at: Instant) -> None:
        if isinstance(image, GlobalImage):
            state.queue, state.queue_sequence = image, sequence
        else:
            assert isinstance(image, RegionImage), log
            region = region_of(log)
            state.regions[region], state.sequences[region] = image, sequence
        self._loop.adopted(state, log, at)


def _silence(state: PlannerState, message: LogSilent | LogHeard) -> Decision:
    """Note that a region is silent, or heard again."""
    is_silent = isinstance(message, LogSilent)
    if message.log == GLOBAL_LOG or state.silent.get(region_of(message.log), False) is is_silent:
        return NOTHING
    return Decision((RegionSilent(region_of(message.log), is_silent),))
