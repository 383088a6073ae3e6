"""Facts by which nodes come into other pools: at once, or with a drain that lifts itself as each node is vacant."""

from collections.abc import Iterable

from core.events.control import NodesClosed, NodesOpened, Runs
from core.events.pools import NodesPooled, PoolsApplied
from core.fact import Event
from core.images import RegionImage
from core.images.maintenance import Maintenance
from core.nouns.limits import POOL_DRAIN_SPAN, RUNS_AT_ONCE_MAX
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import DRAIN
from core.nouns.placement import runs_of
from core.nouns.pooling import PoolsPlan
from core.pooling.moving import moving_by


def parts_of(nodes: Iterable[int]) -> list[Runs]:
    """Return the nodes as runs, in parts that each fit one fact."""
    runs = runs_of(nodes)
    return [runs[first : first + RUNS_AT_ONCE_MAX] for first in range(0, len(runs), RUNS_AT_ONCE_MAX)]


def pooled(nodes: Iterable[int], pool: str, plan: int) -> tuple[Event, ...]:
    """Return the facts that put nodes into a pool."""
    return tuple(NodesPooled(runs, pool, plan) for runs in parts_of(nodes))


def opened(drain: str, nodes: Iterable[int], why: str) -> tuple[Event, ...]:
    """Return the facts that a drain closes nodes no longer."""
    return tuple(NodesOpened(drain, ClosureKind.DRAIN, runs, why) for runs in parts_of(nodes))


def applying(image: RegionImage, plan: PoolsPlan, by: str) -> tuple[Event, ...]:
    """Return the facts that begin the moves of a plan, and call back nodes of an earlier plan that this one leaves in place."""
    moving, maintenance = moving_by(image, plan.moves), image.maintenance
    events: list[Event] = [PoolsApplied(plan.number, by)]
    for pool, nodes in sorted(moving.at_once.items()):
        events += pooled(nodes, pool, plan.number)
    for source, nodes in moving.opened.items():
        events += opened(source, nodes, f"plan {plan.number} moves them now, or leaves them where they are")
    for pool, nodes in sorted(moving.closed.items()):
        events += _closed(nodes, pool, maintenance, sum(isinstance(event, NodesClosed) for event in events))
    return tuple(events)


def _closed(nodes: Iterable[int], pool: str, maintenance: Maintenance, before: int) -> list[NodesClosed]:
    first = maintenance.drains + before + 1
    return [
        NodesClosed(
            f"{DRAIN}{first + place}",
            ClosureKind.DRAIN,
            runs,
            f"pool {pool} needs them",
            lasts=POOL_DRAIN_SPAN,
            pool=pool,
        )
        for place, runs in enumerate(parts_of(nodes))
    ]
