"""Whether a claim may be granted now: the store's re-check, against the present and not against the claim's view."""

from core.images.capacity import Capacity
from core.nouns.ids import AttemptKey
from core.nouns.placement import Claim, needs_of
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import Kind


def is_well_formed(claim: Claim) -> bool:
    """Exactly the tasks that its jobs have, on nodes named once each and in order, over victims named once each."""
    if len(claim.spreads) != len(claim.jobs) or not claim.jobs:
        return False
    if len(set(claim.victims)) != len(claim.victims):
        return False  # What one holds would be counted twice.
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        ascending = all(before < after for before, after in zip(spread.nodes, spread.nodes[1:], strict=False))
        if (
            not ascending
            or len(spread.nodes) != len(spread.tasks)
            or any(count <= 0 for count in spread.tasks)
        ):
            return False
        if sum(spread.tasks) != job.tasks:
            return False
    return True


def check_nodes(claim: Claim, capacity: Capacity) -> Reason | None:
    """Hard rules that time does not mend: the nodes exist and are of the GPU type asked for."""
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        for node in spread.nodes:
            if not capacity.has_node(node):
                return Reason.UNKNOWN_NODE
            if capacity.node_type[node] != job.node_type:
                return Reason.BAD_CLAIM
    return None


def check_victims(claim: Claim, capacity: Capacity) -> Reason | None:
    """Nobody is preempted by equal or lower priority, twice, or against its kind."""
    promised = {
        key for epochs in capacity.promises.values() for other in epochs.values() for key in other.victims
    }
    for workload, epoch in claim.victims:
        held = capacity.holding(workload, epoch)
        if held is None:
            continue  # It ended meanwhile: so much the better.
        if held.claim.priority >= claim.priority or held.claim.kind == Kind.INTERACTIVE:
            return Reason.VICTIM_NOT_LOWER
        if (workload, epoch) in promised:
            return Reason.CONFLICT
    return None


def victims_needed(claim: Claim, capacity: Capacity) -> tuple[AttemptKey, ...]:
    """Victims that are alive and hold something on a node where the claim does not fit without: nobody ends for nothing."""
    short = {node for node, need in needs_of(claim).items() if not capacity.available(node).covers(need)}
    held = [(key, capacity.holding(*key)) for key in claim.victims]
    return tuple(key for key, one in held if one is not None and not short.isdisjoint(needs_of(one.claim)))


def nodes_without_room(claim: Claim, capacity: Capacity) -> tuple[int, ...]:
    """Nodes on which the claim does not fit now, counting what its victims hold as its own."""
    theirs: dict[int, Amount] = {}
    for workload, epoch in claim.victims:
        held = capacity.holding(workload, epoch)
        if held is not None:
            for node, amount in needs_of(held.claim).items():
                theirs[node] = theirs.get(node, Amount()).plus(amount)
    short = []
    for node, need in needs_of(claim).items():
        room = capacity.available(node)
        if node in theirs:
            room = room.plus(theirs[node])
        if not capacity.is_open(node) or not room.covers(need):
            short.append(node)
    return tuple(sorted(short))
