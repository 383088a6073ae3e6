"""Search of a region with reservations: the reservations that bar a workload, and the workload's own earliest start."""

from collections.abc import Iterable
from typing import Protocol

from msgspec.structs import replace

from components.allocation_agent.guests import found_beside
from components.allocation_agent.state import AgentState
from core.claims.checks import check_now
from core.claims.reservations import Lasting, as_claim, barred_for_ever, barred_from, waits_for_its_start
from core.messages.broker import SolicitBid
from core.nouns.ids import AttemptKey
from core.nouns.instant import SECOND, Instant, Nanoseconds, after
from core.nouns.limits import START_ALLOWANCE
from core.nouns.placement import Claim, needs_of, parts_of
from core.nouns.reasons import Reason
from core.nouns.starts import EarliestStart
from core.nouns.workload import JobSpec
from core.placing.index.owners import Now
from core.placing.pick.nodes import Choice
from core.placing.placer import Found
from core.placing.pool_set import Asker, Asking, asker_of
from core.rules.placement.errors import RuleFailed

AHEAD: Nanoseconds = Nanoseconds(SECOND)
"""Allowance until the store judges the claim: a workload that would end just at a reservation's start is not tried."""


class Searching(Asking, Lasting, Protocol):
    """A request, an award or a claim, with its jobs."""

    @property
    def jobs(self) -> tuple[JobSpec, ...]:
        """The jobs to place."""

    @property
    def beside(self) -> AttemptKey | None:
        """The host, on the device of which the jobs are to run; None: they get devices of their own."""


def found_for(
    state: AgentState, asking: Searching, choice: Choice, now: Instant, without: Iterable[object] = ()
) -> tuple[Found | Reason, Asker]:
    """Return where a workload fits now, or the reason why not; and the asker of that search."""
    starts, by = state.image.starts, after(now, AHEAD)
    asker = asker_of(asking, now)
    if isinstance(asking, SolicitBid) and asking.spares_all:
        asker = replace(asker, spares_all=True)
    if asking.beside is not None:
        return found_beside(state, asking.beside, asking.jobs, asker, without), asker
    if not starts.rows:
        return state.placer.find(asking.jobs, asker, choice, without=without), asker
    own = starts.rows.get(asking.workload)
    if own is not None and waits_for_its_start(own.starts_at + START_ALLOWANCE, now):
        asker = replace(asker, spares_all=True)
    asker = replace(asker, barred=barred_from(starts, asking, by))
    found = state.placer.find(asking.jobs, asker, choice, without=without)
    if isinstance(found, Found) and found.victims:
        # With victims the attempt starts and ends later, so more reservations may bar it.
        barred = barred_from(starts, asking, by, has_victims=True)
        if barred != asker.barred:
            asker = replace(asker, barred=barred)
            found = state.placer.find(asking.jobs, asker, choice, without=without)
    lacks_capacity = found in (Reason.NO_CAPACITY, Reason.DESTROYS_TOO_MUCH)
    if lacks_capacity and own is not None and own.jobs == asking.jobs:
        kept = _as_reserved(state, as_claim(asking.workload, own), tuple(without))
        return (kept, asker) if kept is not None else (found, asker)
    return found, asker


def at_best(state: AgentState, asking: Searching, asker: Asker, now: Instant) -> Asker:
    """Return the asker of a start without victims: the attempt ends sooner then, and fewer reservations bar it."""
    starts = state.image.starts
    return replace(asker, barred=barred_from(starts, asking, after(now, AHEAD))) if starts.rows else asker


def _as_reserved(state: AgentState, claim: Claim, without: tuple[object, ...]) -> Found | None:
    """Return the nodes on which the claim's start is reserved, if they are free.

    The search places unlike jobs one after the other, and may miss the combination that was found for the reservation.
    """
    if check_now(claim, Now(state.image.capacity, state.placer.owners)):
        return None
    parts = parts_of(claim)
    with state.placer.as_if(without, claim.jobs) as pools:
        has_capacity = all(
            pools.has_capacity(node, need, parts.get(node, ())) for node, need in needs_of(claim).items()
        )
    return Found(claim.spreads, is_as_reserved=True) if has_capacity else None


def prospect_for(
    state: AgentState, request: SolicitBid, asker: Asker, choice: Choice, now: Instant
) -> EarliestStart | None:
    """Return the workload's earliest start by present knowledge; None if a placement rule raises."""
    barred = barred_for_ever(state.image.starts, request.workload, request.priority)
    try:
        return state.placer.prospect(request.jobs, replace(asker, barred=barred), choice, now)
    except RuleFailed:
        return None
