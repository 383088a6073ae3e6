"""The earliest start that a region can promise to a workload which fits neither now nor over victims.

Attempts with a guaranteed end are removed in the order of these ends, and the placer's own search runs on the remaining state,
with topology and all hard rules. The number of ended attempts is found by halving: more capacity almost never makes a workload
fit worse (core/placing/preemption/victims.py names the exception), and even then the workload fits at the time that is found.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from core.images.capacity import Capacity
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import CLOCKS_APART
from core.nouns.placement import Spread, needs_of
from core.nouns.reasons import Reason
from core.nouns.starts import EarliestStart
from core.nouns.workload import JobSpec
from core.placing.index.owners import Owners
from core.placing.pick.nodes import Choice
from core.placing.pool_set import Asker, PoolSet, request_of
from core.placing.preemption.victim_index import Victim
from core.placing.preemption.victims import freed_by, left_by, shared_without
from core.rules.guaranteed_ends import ends_by

Ending = tuple[Instant, Victim]


def prospect_of(
    pools: PoolSet,
    capacity: Capacity,
    jobs: Sequence[JobSpec],
    asker: Asker,
    choice: Choice,
    now: Instant,
    owners: Owners | None = None,
) -> EarliestStart:
    """Return the earliest start that can be promised, with nodes; without nodes if there is no such start. Raises RuleFailed.

    pools   the present pools; capacity that is offered or claimed counts as held for ever
    asker   barred from every reservation of another workload that the asker may not displace
    owners  owners of nodes, if some work shares no node with other tenants
    """
    endings = endings_of(capacity, now)
    unbounded = unbounded_gpu_milli(capacity, jobs, endings)
    if _are_kept_free(pools, jobs, asker):
        return EarliestStart(unbounded_gpu_milli=unbounded)

    def tried(count: int) -> tuple[Spread, ...] | Reason:
        """Return where the workload fits once the first `count` attempts have ended."""
        gone = [victim for _, victim in endings[:count]]
        left = {} if owners is None else left_by(owners, gone)
        freed = pools.released(freed_by(capacity, gone), left, shared_without(capacity, gone))
        return freed.find(jobs, asker, choice)

    low, high = 0, len(endings)
    found = tried(high)
    if isinstance(found, Reason):
        return EarliestStart(unbounded_gpu_milli=unbounded)
    while low < high:
        middle = (low + high) // 2
        fits = tried(middle)
        if isinstance(fits, Reason):
            low = middle + 1
        else:
            high, found = middle, fits
    until = endings[high - 1][0] - now if high else 0
    return EarliestStart(Nanoseconds(max(0, until) + CLOCKS_APART), found, unbounded)


def endings_of(capacity: Capacity, now: Instant) -> list[Ending]:
    """Return the attempts with a guaranteed end, earliest first, without victims of promises: their capacity is promised."""
    promised = {
        key for epochs in capacity.promises.values() for claim in epochs.values() for key in claim.victims
    }
    found: list[Ending] = []
    for workload, epoch, held in capacity.live():
        bound = ends_by(held, now)
        if bound is not None and (workload, epoch) not in promised:
            found.append((bound, (workload, epoch, held)))
    found.sort(key=lambda ending: (ending[0], ending[1][:2]))
    return found


def unbounded_gpu_milli(capacity: Capacity, jobs: Sequence[JobSpec], endings: Sequence[Ending]) -> int:
    """Return the GPU milli held by attempts not in `endings`, on node types that one of the jobs accepts: a figure for people."""
    ending = {victim[:2] for _, victim in endings}
    will_do: dict[str, bool] = {}
    total = 0
    for workload, epoch, held in capacity.live():
        if (workload, epoch) in ending:
            continue
        for node, need in needs_of(held.claim).items():
            node_type = capacity.node_type[node]
            if node_type not in will_do:
                will_do[node_type] = any(job.takes(node_type) for job in jobs)
            total += need.gpu_milli if will_do[node_type] else 0
    return total


def _are_kept_free(pools: PoolSet, jobs: Sequence[JobSpec], asker: Asker) -> bool:
    """Return whether a pool's reserve or limit binds the workload.

    No start can be promised then, because by that time other work may have used the rest of the pool.
    """
    requests = [request_of(job, replace(asker, barred=())) for job in jobs]
    return any(pool.bounds.concern(request) for request in requests for pool in pools.pools_for(request))
