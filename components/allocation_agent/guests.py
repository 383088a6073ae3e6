"""Places of guests: jobs of a shared pool that the queue pairs each with a live attempt, on one device."""

from collections.abc import Iterable

from components.allocation_agent.state import AgentState
from core.claims.checks import forbidden_for, groups_of
from core.images.pairs import place_beside
from core.messages.queue import Abstention
from core.nouns.cluster import cluster_of
from core.nouns.ids import AgentName, AttemptKey, RegionName, WorkloadId
from core.nouns.placement import takings_of
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.placing.index.owners import Now
from core.placing.placer import Found
from core.placing.pool_set import Asker, request_of
from core.rules.placement.rule_sets import PASSING


def found_beside(
    state: AgentState,
    host: AttemptKey,
    jobs: tuple[JobSpec, ...],
    asker: Asker,
    without: Iterable[object] = (),
) -> Found | Reason:
    """Return the host's place if it takes these jobs as a guest and its node has the CPUs and memory, else `NO_HOST`.

    without   keys of the overlay of which the capacity counts as free
    """
    capacity = state.image.capacity
    spreads = place_beside(capacity, host, asker.kind, jobs)
    if spreads is None:
        return Reason.NO_HOST
    request = request_of(jobs[0], asker)
    clusters = map(cluster_of, groups_of(capacity, spreads[0].nodes))
    if any(forbidden_for(cluster, request) is not None for cluster in clusters):
        return Reason.NO_HOST
    with state.placer.as_if(tuple(without), jobs) as pools:
        now = Now(capacity, state.placer.owners)
        takings = takings_of(jobs, spreads, host)
        is_allowed = all(rule.allows_at(now, node, request) for node, _ in takings for rule in PASSING)
        has_room = all(pools.has_capacity(node, need) for node, need in takings)
    return Found(spreads) if is_allowed and has_room else Reason.NO_HOST


def abstention_beside(
    region: RegionName, agent: AgentName, workload: WorkloadId, auction: str, sequence: int
) -> Abstention:
    """Return the answer to a request for a guest that finds no place. It says nothing of free capacity, for none was asked for."""
    return Abstention(region, agent, workload, auction, Reason.NO_HOST, sequence)
