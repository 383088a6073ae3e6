"""The earliest start that a region can promise to a workload which finds no room now and nobody to push out.

Attempts that surely end are taken away in the order of their bounds, and the placer's own search is asked on what would be there
then, with topology and all hard rules. More room almost never makes a workload fit worse (core/placing/preemption/victims.py says when it
does); then the halving ends elsewhere, and what it ends with is still a time at which it fits.
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
    """From when on it fits whatever happens, and where. Raises RuleFailed.

    pools   as they are; what is offered or claimed in them counts as held for ever
    asker   barred from every start that is reserved for somebody else and that it may not displace
    owners  who is where, if anybody shares a node with nobody
    """
    endings = endings_of(capacity, now)
    unbounded = unbounded_gpu_milli(capacity, jobs, endings)
    if _are_kept_free(pools, jobs, asker):
        return EarliestStart(unbounded_gpu_milli=unbounded)

    def tried(count: int) -> tuple[Spread, ...] | Reason:
        """Where it fits once the first so many have ended."""
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
    """All that surely end, the first to end first. Who must make room for a promise leaves nothing to anybody else."""
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
    """What others hold, on nodes of types that would do for one of these jobs: a figure for people."""
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
    """Whether a pool keeps something free from it: by then others may have come so near to that, that it may not start."""
    requests = [request_of(job, replace(asker, barred=())) for job in jobs]
    return any(pool.bounds.concern(request) for request in requests for pool in pools.pools_for(request))
