"""Plans of which nodes are to move between pools, as a planner would say them to a store."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from core.messages.pools import SetPool, SetPoolsPlan
from core.nouns.placement import runs_of
from core.nouns.pool import PoolSettings
from core.nouns.pooling import NodesMove, PoolsBasis, PoolsPlan
from core.pooling.moving import pools_by_node
from tests.builders import EU
from tests.components.support.machine import Machine


def a_plan(
    machine: Machine[Any], moves: Mapping[int, str], **parts: Any
) -> PoolsPlan:  # Any: parts of a plan
    """The next plan of a store, which moves each of these nodes to a pool."""
    image = machine.state.image
    pools = pools_by_node(image.capacity)
    by_pools: dict[tuple[str, str], list[int]] = {}
    for node, pool in moves.items():
        known = pools[node] if 0 <= node < len(pools) else "training"
        by_pools.setdefault((known, pool), []).append(node)
    plan = PoolsPlan(
        image.pools.plan.number + 1,
        tuple(NodesMove(*key, runs_of(nodes)) for key, nodes in sorted(by_pools.items())),
        basis=PoolsBasis(machine.state.sequence, image.pools.revision),
    )
    return replace(plan, **parts)


def planned(machine: Machine[Any], moves: Mapping[int, str], **parts: Any) -> Any:  # Any: a decision
    """A planner says the next plan."""
    return machine.hear(SetPoolsPlan(EU, a_plan(machine, moves, **parts), "planner"))


def needs(
    machine: Machine[Any], pool: str = "training", **parts: Any
) -> Any:  # Any: parts of settings; a decision
    """An operator states what a pool needs."""
    settings = replace(machine.state.image.pools.of(pool), **parts)
    assert isinstance(settings, PoolSettings)
    return machine.hear(SetPool(EU, pool, settings, machine.state.image.pools.revision, "olga"))


def pool_of(machine: Machine[Any], node: int) -> str:
    """The pool of a node, as the store knows it."""
    return pools_by_node(machine.state.image.capacity)[node]
