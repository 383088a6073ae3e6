"""A region with uneven power domains, nodes of several types in several pools, and needs that are nearly all that can be had."""

import random
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from core.events.pools import PoolChanged, PoolingPolicySet
from core.events.region import NodesJoined
from core.fact import Fact
from core.images import RegionImage
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import RegionName, WorkerName, region_log
from core.nouns.instant import Instant
from core.nouns.pool import FREE_POOL, PERMILLE, PoolSettings
from core.nouns.pooling import PoolingPolicy
from core.nouns.quantities import MILLI, Amount
from core.pooling.classes import problem_of, standing_of
from runtime.solvers.pools import solve_pools

REGION = RegionName("drawn")
GPUS = 8
"""Of a node."""
RACK_NODES = 16
RACKS_PER_WORKER = 64
NODE = Amount(GPUS * MILLI, 96_000, 1 << 40)
NODE_TYPES = ("A100", "H100", "V100")
POOLS = ("batch", "training", "service", "research", "harvest", "extra-1", "extra-2", "extra-3")
FREE_SHARE = 0.1
"""Of racks, those in no pool at first."""
STEPS = 7
"""Of the search for the most that can be had: within a hundredth of it."""


class Draw(Struct, frozen=True):
    """What is drawn."""

    nodes: int
    domains: int
    pools: int
    seed: int
    in_use: float = 0.6
    """Share of nodes."""
    part: float = 0.9
    """Of what can be had, that pools need."""


def drawn_region(draw: Draw) -> RegionImage:
    """Return a region with needs, of which `part` of the most that all pools could have together after the loss of any domain."""
    dice = random.Random(f"pools/{draw.seed}")
    image = _joined(draw, dice)
    shares = _shares(draw, dice)
    least, most = 0.0, 1.0
    for _ in range(STEPS):
        middle = (least + most) / 2
        _state(image, _needs(image, shares, middle))
        answer = solve_pools(problem_of(image, standing_of(image), {}, 1 << 30))
        if any(map(any, answer.short)):
            most = middle
        else:
            least = middle
    _state(image, _needs(image, shares, draw.part * least))
    for node in range(draw.nodes):
        if dice.random() < draw.in_use:
            image.capacity.gpu.free[node], image.capacity.gpu.held[node] = 0, NODE.gpu_milli
    return image


def _joined(draw: Draw, dice: random.Random) -> RegionImage:
    """Return racks of like nodes, each in one domain and one pool; domains differ by up to four times."""
    image = RegionImage.empty(("capacity", "maintenance", "pools", "starts"))
    weights = [dice.uniform(0.5, 2.0) for _ in range(draw.domains)]
    groups: list[NodeGroup] = []
    for rack, first in enumerate(range(0, draw.nodes, RACK_NODES)):
        (domain,) = dice.choices(range(draw.domains), weights)
        pool = FREE_POOL if dice.random() < FREE_SHARE else POOLS[dice.randrange(draw.pools)]
        count = min(RACK_NODES, draw.nodes - first)
        groups.append(
            NodeGroup(
                first,
                count,
                NODE,
                dice.choice(NODE_TYPES),
                rack,
                RACK_NODES,
                power_domain=f"power-{domain}",
                pool=pool,
            )
        )
    for number, at in enumerate(range(0, len(groups), RACKS_PER_WORKER)):
        worker = WorkerName(f"w{number}")
        inventory = Inventory(worker, tuple(groups[at : at + RACKS_PER_WORKER]))
        fold(image, NodesJoined(worker, inventory))
    fold(image, PoolingPolicySet(PoolingPolicy(at_once=PERMILLE)))
    return image


def _shares(draw: Draw, dice: random.Random) -> dict[tuple[str, str], float]:
    """Return of each type the part that each pool wants of all."""
    found = {}
    for node_type in NODE_TYPES:
        weights = [dice.uniform(0.2, 2.0) for _ in range(draw.pools)]
        for pool, weight in zip(POOLS, weights, strict=False):
            found[pool, node_type] = weight / sum(weights)
    return found


def _needs(
    image: RegionImage, shares: Mapping[tuple[str, str], float], scale: float
) -> dict[tuple[str, str], int]:
    there = Counter(
        {node_type: GPUS * count for node_type, count in Counter(image.capacity.node_type).items()}
    )
    return {key: int(scale * share * there[key[1]]) for key, share in shares.items()}


def _state(image: RegionImage, needs: Mapping[tuple[str, str], int]) -> None:
    by_pool: dict[str, list[tuple[str, int]]] = {}
    for (pool, node_type), gpus in sorted(needs.items()):
        by_pool.setdefault(pool, []).append((node_type, gpus))
    for pool, mine in by_pool.items():
        fold(image, PoolChanged(pool, PoolSettings(needs=tuple(mine))))


def fold(image: RegionImage, event: NodesJoined | PoolChanged | PoolingPolicySet) -> None:
    """Fold an event as the next fact of the region."""
    image.fold(Fact(region_log(REGION), 1, Instant(0), "bench", "bench", event))
