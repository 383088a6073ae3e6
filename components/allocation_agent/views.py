"""The claim for an award, and the view of a bid or claim, which names all data of the choice."""

from collections.abc import Iterable

from msgspec.structs import replace

from components.allocation_agent.partitions import Searched
from components.allocation_agent.state import AgentState, BidMade
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.queue import Bid
from core.nouns.ids import AgentName, AttemptKey, ClaimId, RegionName
from core.nouns.instant import Instant
from core.nouns.limits import VIEW_ROWS_MAX
from core.nouns.placement import SEARCH, Claim, Spread, View, takings_of
from core.nouns.workload import JobSpec
from core.placing.answers.bids import score
from core.placing.believed import Believed
from core.placing.partitions import NO_PARTITION
from core.placing.pick.nodes import Choice
from core.placing.placer import Found
from core.placing.pool_set import Asker


def view_of(
    state: AgentState,
    jobs: tuple[JobSpec, ...],
    choice: Choice,
    asker: Asker,
    found: Found,
    without: Iterable[object] = (),
) -> View:
    """Return the view from which a choice was made: the log's sequence, and all knowledge beside the log."""
    open_bids = tuple(bid.workload for bid in state.bids.values())
    rows = state.overlay.rows(state.image.capacity, without)
    owners = state.placer.owners_beside(jobs, without)
    spared = sorted(state.overlay.victims(without))
    return View(
        state.sequence,
        open_bids,
        tuple(state.claims),
        rows[:VIEW_ROWS_MAX],
        choice.seed,
        choice.stripe,
        choice.stripes,
        choice.best,
        is_whole=max(len(rows), len(owners), len(spared)) <= VIEW_ROWS_MAX,
        settings_revision=state.image.pools.revision,
        search=SEARCH,
        owners=owners[:VIEW_ROWS_MAX],
        prices_revision=state.image.prices.revision,
        barred=asker.barred,
        at=asker.at,
        is_as_reserved=found.is_as_reserved,
        spared=tuple(spared[:VIEW_ROWS_MAX]),
    )


def view_by_rows(
    state: AgentState,
    believed: Believed,
    choice: Choice,
    asker: Asker,
    searched: Searched,
    without: Iterable[object] = (),
) -> View:
    """Return the view of a choice by rows alone: one partition's, or the whole region's once everything was taken in."""
    partition, partitions = searched.partition, believed.partitions
    if partition == NO_PARTITION:
        rows = state.overlay.rows(state.image.capacity, without)
    else:
        capacity = state.image.capacity
        rows = state.overlay.rows(capacity, without, lambda node: partitions.of(node) == partition)
    return View(
        believed.taken[partition] if partition != NO_PARTITION else believed.sequence,
        tuple(bid.workload for bid in state.bids.values()),
        tuple(state.claims),
        rows[:VIEW_ROWS_MAX],
        choice.seed,
        choice.stripe,
        choice.stripes,
        choice.best,
        is_whole=len(rows) <= VIEW_ROWS_MAX,
        settings_revision=state.image.pools.revision,
        search=SEARCH,
        prices_revision=state.image.prices.revision,
        at=asker.at,
        placing=searched.placed_by.value,
        partition=partition,
    )


def bid_for(
    region: RegionName,
    agent: AgentName,
    state: AgentState,
    request: SolicitBid,
    found: Found,
    view: View,
    now: Instant,
) -> tuple[Bid, BidMade]:
    """Return the bid on a request, and the note by which its capacity counts as taken."""
    bid = Bid(
        region,
        agent,
        request.workload,
        request.auction,
        score(state.placer.pools, found, now, state.image.preemption.settings.score),
        found.spreads,
        found.victim_keys,
        view,
    )
    needs = tuple(takings_of(request.jobs, found.spreads, request.beside))
    made = BidMade(request.auction, request.workload, needs, found.victim_keys, request.held_for)
    return bid, made


def claim_again(claim: Claim, tries: int, found: Found, view: View) -> Claim:
    """Return the next claim of an agent for the award of a claim that met a conflict."""
    return replace(
        claim,
        claim=ClaimId(f"{claim.workload}.{claim.epoch}.{claim.agent}.{tries}"),
        spreads=found.spreads,
        victims=found.victim_keys,
        view=view,
    )


def claim_for(
    region: RegionName,
    agent: AgentName,
    award: ExecuteAward,
    spreads: tuple[Spread, ...],
    victims: tuple[AttemptKey, ...],
    view: View,
    tries: int = 1,
) -> Claim:
    """Return the first claim of an agent for an award, which is the `tries`th for this award."""
    return Claim(
        claim=ClaimId(f"{award.workload}.{award.epoch}.{agent}.{tries}"),
        region=region,
        agent=agent,
        workload=award.workload,
        epoch=award.epoch,
        award_sequence=award.award_sequence,
        priority=award.priority,
        kind=award.kind,
        jobs=award.jobs,
        spreads=spreads,
        view=view,
        victims=victims,
        resume_epoch=award.resume_epoch,
        resume_step=award.resume_step,
        forerunners=award.forerunners,
        grace=award.grace,
        max_duration=award.max_duration,
        tenant=award.tenant,
        control=award.control,
        spec_revision=award.spec_revision,
        failures_max=award.failures_max,
        is_healing=award.is_healing,
        is_incremental=award.is_incremental,
        standing_revision=award.standing_revision,
        run_min=award.run_min,
        beside=award.beside,
    )
