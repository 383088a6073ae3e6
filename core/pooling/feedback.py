"""Why pools are planned, and what refused work adds to their needs."""

from msgspec import Struct

from core.images.pools import Pools
from core.images.refusals import Refusals
from core.nouns.ids import RegionName
from core.nouns.instant import Instant, after
from core.nouns.limits import POOLS_EVERY, POOLS_PATIENCE
from core.nouns.pool import FREE_POOL
from core.nouns.pooling import MoveReason
from core.nouns.quantities import MILLI
from core.nouns.reasons import Reason
from core.nouns.workload import Kind
from core.pooling.classes import Standing
from core.rules.placement.pool import pool_rank, takes_kind

FOR_ROOM = frozenset(
    {
        Reason.NO_CAPACITY,
        Reason.DESTROYS_TOO_MUCH,
        Reason.RESERVED,
        Reason.OVER_LIMIT,
        Reason.START_RESERVED,
    }
)
"""Reasons of refusals that more nodes would end."""


class Wanted(Struct):
    """What refused work waits for in one pool, of one node type."""

    gpus: int
    since: int
    """When the newest of the refusals began that have lasted long enough."""


def wanted_in(
    region: RegionName, refusals: Refusals, standing: Standing, now: Instant
) -> tuple[dict[tuple[str, str], Wanted], Instant | None]:
    """Return what refused work waits for by pool and type, where other pools have idle nodes of the type; and when more may be found.

    Work counts once it has been refused for room for `POOLS_PATIENCE`.
    """
    found: dict[tuple[str, str], Wanted] = {}
    look_at: Instant | None = None
    idle = _idle(standing)
    for row in refusals.rows.values():
        held = row.regions.get(region)
        if held is None or held.reason not in FOR_ROOM or not row.kind or not row.gpu_milli:
            continue
        pool = _pool_of(Kind(row.kind), standing)
        types = {
            node_type: gpus
            for node_type in row.node_types
            if (gpus := sum(idle.get((other, node_type), 0) for other in standing.pools if other != pool))
        }
        if pool is None or not types:
            continue
        is_due_at = after(Instant(held.since), POOLS_PATIENCE)
        if is_due_at > now:
            look_at = is_due_at if look_at is None else min(look_at, is_due_at)
            continue
        node_type = max(types, key=lambda one: (types[one], one))
        mine = found.setdefault((pool, node_type), Wanted(0, held.since))
        mine.gpus += -(-row.gpu_milli // MILLI)
        mine.since = max(mine.since, held.since)
    return found, look_at


def _pool_of(kind: Kind, standing: Standing) -> str | None:
    """Return the pool of a kind of work: its own if the region has it, or else one that takes it, but never `free`."""
    found = [pool for pool in standing.pools if pool != FREE_POOL and takes_kind(pool, kind)]
    return min(found, key=lambda pool: (pool_rank(pool, kind), pool), default=None)


def _idle(standing: Standing) -> dict[tuple[str, str], int]:
    """Return the GPUs of idle nodes by pool and type."""
    found: dict[tuple[str, str], int] = {}
    for one, nodes in standing.nodes.items():
        if not one.is_in_use and one.going == one.pool:
            key = (one.pool, one.node_type)
            found[key] = found.get(key, 0) + one.gpus * len(nodes)
    return found


def why_planned(
    pools: Pools, standing: Standing, wanted: dict[tuple[str, str], Wanted], now: Instant
) -> MoveReason | None:
    """Return why pools are to be planned now; None: the newest plan holds."""
    plan = pools.plan
    if not plan.number or plan.basis.revision != pools.revision:
        return MoveReason.NEED
    if standing.digest != (plan.after if pools.is_applied else plan.basis.digest):
        return MoveReason.HARDWARE
    is_under_way = any(one.going != one.pool for one in standing.nodes)
    if plan.is_bounded and pools.is_applied and not is_under_way:
        return MoveReason.NEED
    if any(key not in plan.basis.wants or one.since > pools.planned_at for key, one in wanted.items()):
        return MoveReason.WORK
    if after(Instant(pools.planned_at), POOLS_EVERY) <= now:
        return MoveReason.TIME
    return None
