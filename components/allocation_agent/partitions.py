"""An agent that takes in rows alone: the taking in before a search, and the search partition by partition.

The first request of a round names, by its turn, the partitions that the agent owns: rows of these that were held back are taken
in at one go, and then the request is decided. From then on rows of these are taken in as they are told, until a later turn names
others. There are no timers, so an agent without requests rests. A workload that neither a
node nor an owned rack holds is searched for in the whole region, after all rows were taken in. A request that rows cannot
answer, or that finds no place, is handed back to the broker for an agent that folds every fact.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from components.allocation_agent.state import (
    AgentState,
    ClaimClosed,
    Counted,
    OpenClaim,
    PutAside,
    TakenIn,
    ViewWanted,
    Waiting,
)
from core.component import Decision
from core.fact import Note
from core.messages.agents import AgentFigures, AwardHandedBack, FindBid, PlaceAward
from core.messages.base import Envelope
from core.messages.broker import ExecuteAward
from core.messages.control import PlaceTasks
from core.nouns.agents import AgentView, PlacedBy, Turn
from core.nouns.ids import AgentName, RegionName
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds
from core.nouns.limits import WAITING_MAX
from core.nouns.placement import View
from core.nouns.workload import JobSpec
from core.placing.believed import Believed
from core.placing.partition_search import Knowledge
from core.placing.partitions import NO_PARTITION, owned_by
from core.placing.pick.nodes import Choice
from core.placing.placer import Found
from core.placing.pool_set import Asker
from core.placing.strategies import STRATEGIES
from core.placing.strategies.adaptive import is_late_after
from core.placing.strategies.tier_first import tier_first


class Searched(Struct, frozen=True):
    """The result of a search by rows alone."""

    found: Found | None = None
    partition: int = NO_PARTITION
    """In which the place was found; NO_PARTITION: in the whole region."""
    quality_permille: int = -1
    """As in `Counted`."""
    placed_by: PlacedBy = PlacedBy.WHOLE_REGION
    wants_all: bool = False
    """True if all rows must be taken in first."""


NOTHING_FOUND = Searched()


def before_search(state: AgentState, message: Waiting, turn: Turn, envelope: Envelope) -> Decision | None:
    """Return the decision that puts a request aside until it can be decided; None if it can be decided now.

    A request that no longer finds room among those that wait is dropped: queue and broker repeat requests without an answer. The view
    stays as it is until all requests that wait for it are decided: each image that is adopted for a view decides one at least.
    """
    wants_rows = _wants_rows(state, turn)
    events: list[Note] = []
    if state.has_rows_alone != wants_rows and not any(
        _wants_rows(state, _turn_of(one.request)) == state.has_rows_alone for one in state.waiting
    ):
        events.append(ViewWanted(wants_rows))
    if (state.believed is not None) == wants_rows and not events:
        due = state.believed.due(turn, envelope.at) if state.believed is not None else None
        if due is None:
            return None
        events.append(TakenIn(tuple(due), turn))
    if len(state.waiting) < WAITING_MAX:
        events.append(PutAside(message, Instant(envelope.at - envelope.waited)))
    return Decision(events=tuple(events))


def _wants_rows(state: AgentState, turn: Turn) -> bool:
    """Return whether a request in this turn is to be decided by rows alone."""
    return state.image.agents.settings.has_rows_alone and not turn.is_full


def _turn_of(request: Waiting) -> Turn:
    return Turn() if isinstance(request, PlaceTasks) else request.turn


def with_whole_wait(envelope: Envelope) -> Envelope:
    """Return the envelope of a request with the wait elsewhere added to the wait in the inbox."""
    message = envelope.message
    if not isinstance(message, FindBid | PlaceAward) or not message.waited:
        return envelope
    return replace(envelope, waited=Nanoseconds(envelope.waited + message.waited))


def counted(decision: Decision, envelope: Envelope) -> Decision:
    """Return the decision of a request with its count, if the request is answered and was not counted yet."""
    if not isinstance(envelope.message, FindBid | PlaceAward) or not decision.messages:
        return decision
    if any(isinstance(event, Counted) for event in decision.events):
        return decision
    return replace(decision, events=(*decision.events, Counted(envelope.waited)))


def handed_back(region: RegionName, agent: AgentName, met: OpenClaim, award: ExecuteAward) -> Decision:
    """Return the decision that gives the award of a claim back to the broker, after a conflict without another place."""
    key = (award.workload, award.epoch)
    back = AwardHandedBack(region, agent, replace(award, spreads=()), met.tries)
    return Decision(
        (ClaimClosed(key, is_conflict=True), Counted(is_handed_back=True, is_again=True)), (back,)
    )


def can_serve(state: AgentState) -> bool:
    """Return whether the first request that waits can be decided now."""
    return bool(state.waiting) and (state.believed is not None) == state.has_rows_alone


def choice_for(state: AgentState, seed: str, turn: Turn) -> Choice:
    """Return an agent's choice in a turn: which pods come first."""
    stripe = (turn.index + turn.round) % turn.agents
    return Choice(seed, stripe, turn.agents, state.window.best, is_weighted=state.is_weighted)


def choice_again(state: AgentState, seed: str, view: View) -> Choice:
    """Return the choice of another try, after a claim with this view met a conflict."""
    return Choice(seed, view.stripe, view.stripes, state.window.best, is_weighted=state.is_weighted)


def search(
    state: AgentState,
    believed: Believed,
    jobs: tuple[JobSpec, ...],
    asker: Asker,
    choice: Choice,
    waited: Nanoseconds,
    without: Iterable[object] = (),
) -> Searched:
    """Return a place for all tasks of all jobs by rows alone.

    waited    how long the request has waited
    without   as in core/placing/placer.py `find`
    """
    if believed.is_stale:
        return Searched(
            wants_all=True
        )  # The placer's partitions are dealt anew, and those of the rows are not.
    settings, keys = believed.image.agents.settings, tuple(without)
    if len(jobs) == 1:
        count = believed.partitions.count
        is_owned = settings.view == AgentView.PARSYNC and believed.turn is not None
        owned = (
            owned_by(believed.turn, count, settings.rotation) if is_owned and believed.turn else range(count)
        )
        is_late = is_late_after(waited, was_late=state.is_late)
        strategy = STRATEGIES.get(settings.placing, tier_first)
        number = believed.turn.round if is_owned and believed.turn else None
        knowledge = Knowledge(believed.fresh, owned, strategy, is_late, number)
        found = state.placer.find_in_partition(jobs[0], asker, choice, knowledge, keys)
        if found is not None:
            by = PlacedBy.of(settings.placing, is_late=is_late, is_in_a_rack=found.is_in_a_rack)
            return Searched(Found((found.spread,)), found.partition, found.quality_permille, by)
        if jobs[0].tasks == 1:
            return NOTHING_FOUND
    if not believed.is_whole:
        return Searched(wants_all=True)
    whole = state.placer.find(jobs, replace(asker, spares_all=True), choice, without=keys)
    return Searched(whole) if isinstance(whole, Found) else NOTHING_FOUND


def take_in_all(believed: Believed) -> TakenIn:
    """Return the note by which all rows that are held back are taken in."""
    return TakenIn(tuple(range(believed.partitions.count)))


def figures_of(state: AgentState, now: Instant) -> AgentFigures:
    """Return the figures of a beat."""
    if state.believed is None:
        return state.tally.figures("full", 0, 0, state.placer.partitions.count)
    ages = [(now - at) // MILLISECOND for at in state.believed.taken_at]
    return state.tally.figures(state.image.agents.settings.view, min(ages), max(ages), len(ages))
