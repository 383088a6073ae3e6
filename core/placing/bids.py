"""A bid's price, and how far a region is from being able to bid."""

from collections.abc import Sequence

from msgspec.structs import replace

from core.images.capacity import Capacity
from core.nouns.instant import Instant
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.placing.picking import Choice
from core.placing.placer import Found
from core.placing.pool_set import Asker, PoolSet
from core.placing.shortages import missing_gpu_milli
from core.placing.victims import candidates_under, destroyed_gpu_seconds, freed_by


def score(pools: PoolSet, found: Found, now: Instant) -> tuple[int, ...]:
    """A bid's score, compared from the left; lower is better.

    returns   (victims' highest priority + 1 or 0, victims, GPU-seconds destroyed, racks, nodes, GPU permille held), as
              core/nouns/placement.py names them in SCORE_PARTS
    source    DESIGN §5.4
    """
    priority = max((held.claim.priority + 1 for _, _, held in found.victims), default=0)
    destroyed = destroyed_gpu_seconds(found.victims, now)
    nodes = {node for spread in found.spreads for node in spread.nodes}
    return (priority, len(found.victims), destroyed, pools.racks_of(nodes), len(nodes), pools.held_permille)


def missing_over_all(pools: PoolSet, capacity: Capacity, jobs: Sequence[JobSpec], asker: Asker) -> int:
    """How much GPU milli must be freed beside all that could be pushed out: what a refusal's shortage is counted from."""
    everybody = candidates_under(capacity, asker.priority, asker.at)
    return missing_gpu_milli(pools.released(freed_by(capacity, everybody)), jobs, asker)


def why_kept(pools: PoolSet, jobs: Sequence[JobSpec], asker: Asker, choice: Choice) -> Reason:
    """Of jobs that find no place: whether they would, if the pools' reserves were not kept, or their limits neither; or if no start
    were reserved for others.
    """
    without_reserve = replace(asker, heeds_reserve=False)
    for reason, other in (
        (Reason.RESERVED, without_reserve),
        (Reason.OVER_LIMIT, asker.unbound()),
        (Reason.START_RESERVED, replace(asker, barred=())),
    ):
        if other != asker and not isinstance(pools.find(jobs, other, choice), Reason):
            return reason
    return Reason.NO_CAPACITY
