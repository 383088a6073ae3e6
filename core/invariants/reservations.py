"""Invariants of node reservations, given the region's image before a fact.

The rules are written a second time, without the functions by which the store decides, so that a mistake there is found here.
Times are compared with the fact's own time.
"""

from collections.abc import Iterable

from core.events.control import ClaimRevised
from core.events.region import ClaimGranted, ClaimPromised
from core.events.starts import StartReserved
from core.fact import Fact
from core.images import RegionImage
from core.images.capacity import Holding
from core.invariants.control import Finding
from core.nouns.placement import Claim, needs_of, nodes_of
from core.nouns.quantities import Amount
from core.nouns.workload import Kind


def check_start_fact(fact: Fact, before: RegionImage) -> list[Finding]:
    """Return violations by a fact of a region: work that may outlast a reservation's start comes to reserved nodes (rule 2), or a
    start is reserved without capacity (rule 1).
    """
    event = fact.event
    match event:
        case StartReserved():
            return [
                (1, f"{event.workload}: a start is reserved {why}")
                for why in _unfounded(event, fact.at, before)
            ]
        case ClaimPromised(claim=claim):
            return _intrudes(claim, nodes_of(claim), fact.at, before)
        case ClaimGranted(claim=claim):
            if before.capacity.promise(event.workload, event.epoch) is not None:
                return []  # Checked at the promise.
            return _intrudes(claim, nodes_of(claim), fact.at, before)
        case ClaimRevised():
            held = before.capacity.holding(event.workload, event.epoch)
            coming = [move.node_to for move in event.moves if move.node_to not in (-1, move.node_from)]
            return _intrudes(held.claim, coming, fact.at, before) if held is not None else []
    return []


def _intrudes(claim: Claim, nodes: Iterable[int], at: int, before: RegionImage) -> list[Finding]:
    if not before.starts.rows:
        return []
    lasts = claim.max_duration if claim.kind != Kind.SERVICE else 0
    there = set(nodes)
    return [
        (2, f"{claim.workload}.{claim.epoch}: comes to nodes that are reserved for the start of {owner}")
        for owner, row in before.starts.rows.items()
        if owner != claim.workload
        and claim.priority <= row.level
        and not there.isdisjoint(row.nodes())
        and (not lasts or at + lasts + claim.grace > row.starts_at)
    ]


def _unfounded(event: StartReserved, at: int, before: RegionImage) -> Iterable[str]:
    capacity, starts_at = before.capacity, at + event.start_in
    mine: dict[int, Amount] = {}
    for job, spread in zip(event.jobs, event.spreads, strict=True):
        for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
            mine[node] = mine.get(node, Amount()).plus(job.need.times(tasks))
    for owner, row in before.starts.rows.items():
        if owner != event.workload and not mine.keys().isdisjoint(row.nodes()):
            yield f"on nodes of {owner}'s"
    known = before.starts.rows.get(event.workload)
    if known is not None and known.revision >= event.revision:
        yield f"with revision {event.revision} after {known.revision}"
    stays: dict[int, Amount] = {}
    for _, _, held in capacity.live():
        if not _is_gone_by(held, starts_at):
            for node, need in needs_of(held.claim).items():
                stays[node] = stays.get(node, Amount()).plus(need)
    for node, need in mine.items():
        if not capacity.has_node(node) or capacity.is_lost[node]:
            yield f"on node {node}, which is not there"
            continue
        total = Amount(capacity.gpu.total[node], capacity.cpu.total[node], capacity.memory.total[node])
        if not total.covers(need.plus(stays.get(node, Amount()))):
            yield f"on node {node}, where others may still be then"


def _is_gone_by(held: Holding, starts_at: int) -> bool:
    """Return whether an attempt surely ends by then: its longest duration and grace, or its grace after a stop, are over."""
    if held.is_ending and held.stopped_at + held.claim.grace <= starts_at:
        return True
    limit = held.claim.max_duration
    if not limit or held.claim.kind == Kind.SERVICE:
        return False
    return (held.started_at or held.granted_at) + limit + held.claim.grace <= starts_at
