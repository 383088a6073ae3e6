"""A plane of one region with two power domains, and plans of its pools as a planner would send them."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from core.events.pools import PoolChanged, PoolingPolicySet, PoolsApplied, PoolsPlanned
from core.events.region import NodesJoined
from core.fact import Event
from core.images import RegionImage
from core.images.pools import Pools
from core.messages.pools import PoolsAnswered, SetPoolsPlan
from core.nouns.fleet import Inventory
from core.nouns.ids import WorkerName
from core.nouns.instant import seconds
from core.nouns.placement import runs_of
from core.nouns.pool import PoolSettings
from core.nouns.pooling import NodesMove, PoolingPolicy, PoolsBasis, PoolsPlan, PoolStanding
from core.pooling.moving import pools_by_node
from tests.builders import EU, EU_LOG, folded
from tests.mizzen.half_plane import HalfPlane, awarded, half_plane
from tests.mizzen.nodes_scene import nodes
from tests.runtime.aids import Place

RECORDS = (PoolChanged, PoolingPolicySet, PoolsPlanned, PoolsApplied)
ALL_AT_ONCE = PoolingPolicySet(PoolingPolicy(at_once=1_000), "olga")
BY_HAND = PoolingPolicySet(PoolingPolicy(is_automatic=False, at_once=1_000), "olga")
SERVICE_NEEDS = PoolChanged("service", PoolSettings(needs=(("H100", 16),)), "olga")
SPAN = seconds(5)

JOINED = (
    nodes("w0", 0, power="power-0"),
    nodes("w1", 4, power="power-1"),
    nodes("w2", 8, power="power-1", pool="service"),
)
"""Nodes 0-3 of training in power-0, 4-7 of training and 8-11 of service in power-1, each with 8 H100."""


def running(worker: str, first: int, *, power: str = "", pool: str = "training") -> NodesJoined:
    """Four nodes that run programs."""
    (group,) = nodes(worker, first, power=power, pool=pool).inventory.groups
    name = WorkerName(worker)
    return NodesJoined(name, Inventory(name, (replace(group, runs_programs=True),)))


def region_of(*events: Event) -> RegionImage:
    """The three workers' nodes, and whatever happened then."""
    return folded(RegionImage.empty(), [*JOINED, *events])


async def plane_of(place: Place, *events: Event) -> HalfPlane:
    """The same, on a plane."""
    return await half_plane(place, (*JOINED, *events), *awarded())


async def recorded(plane: HalfPlane) -> list[Any]:  # Any: events about pools
    """All that the region's log says of settings and plans, in order."""
    reader = [await plane.events(EU_LOG, kind) for kind in RECORDS]
    return [event for events in reader for event in events]


def a_plan(image: RegionImage, moves: Mapping[int, str], **parts: Any) -> PoolsPlan:  # Any: parts of a plan
    """The next plan of a region, which moves each of these nodes to a pool."""
    pools = pools_by_node(image.capacity)
    by_pools: dict[tuple[str, str], list[int]] = {}
    for node, pool in moves.items():
        by_pools.setdefault((pools[node], pool), []).append(node)
    plan = PoolsPlan(
        image.pools.plan.number + 1,
        tuple(NodesMove(*key, runs_of(mine)) for key, mine in sorted(by_pools.items())),
        (PoolStanding("service", "H100", 16, 48, 16, 0),),
        cost=2_000,
        bound=2_000,
        basis=PoolsBasis(1, image.pools.revision),
    )
    return replace(plan, **parts)


async def planned(
    plane: HalfPlane, moves: Mapping[int, str], **parts: Any
) -> PoolsAnswered:  # Any: parts of a plan
    """A planner sends the next plan to the store."""
    plan = a_plan(await plane.image(EU_LOG), moves, **parts)
    answer = await plane.bus.ask(SetPoolsPlan(EU, plan, "planner"), SPAN)
    assert isinstance(answer, PoolsAnswered), answer
    return answer


async def pools_now(plane: HalfPlane) -> str:
    """The first letter of each node's pool."""
    image = await plane.image(EU_LOG)
    return "".join(pool[0] for pool in pools_by_node(image.capacity))


async def settings_now(plane: HalfPlane) -> Pools:
    """The region's pools, as its log has them."""
    image = await plane.image(EU_LOG)
    assert isinstance(image, RegionImage)
    return image.pools
