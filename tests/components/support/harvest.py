"""A store whose pool is harvested, the harvester of its region, and what function servers say to it."""

from collections.abc import Callable, Mapping
from typing import Any

from components.harvester.component import Harvester
from core.component import Decision
from core.events.pools import PoolChanged
from core.events.queue import RegionAdded
from core.images.harvest import HarvestedNode
from core.messages.harvest import (
    NodeReleased,
    NodeUse,
    OfferHarvest,
    RecallHarvest,
    ReleaseHarvest,
    ServerSized,
    ShowHarvest,
    TaskLends,
)
from core.messages.pools import SetPool
from core.nouns.harvest import HarvestPart, HarvestSettings
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import seconds
from core.nouns.pool import PoolSettings
from core.nouns.quantities import Amount
from tests.builders import EU, EU_LOG, NODE, joined
from tests.components.support.machine import Machine
from tests.components.support.placement_store import a_store

Start = Callable[..., Machine[Any]]
GRACE = seconds(30)
ON = PoolSettings(harvest=HarvestSettings(is_on=True))
OFF = PoolSettings(harvest=HarvestSettings())
POOL = "training"


def gpus(count: int) -> Amount:
    """So many devices of a node of eight, with their part of its cores and memory."""
    return Amount(1_000 * count, NODE.cpu_milli * count // 8, NODE.memory_bytes * count // 8)


def set_pool(machine: Machine[Any], settings: PoolSettings, pool: str = POOL) -> Decision:
    """An operator sets a pool."""
    return machine.hear(SetPool(EU, pool, settings, machine.state.image.pools.revision, "olga"))


def a_harvested_store(start: Start, settings: PoolSettings = ON) -> Machine[Any]:
    """Four empty nodes of eight GPUs, in a pool with these settings."""
    machine = a_store(start)
    set_pool(machine, settings)
    return machine


def parts_of(sizes: Mapping[int, Amount]) -> tuple[HarvestPart, ...]:
    """These sizes by node, each as a part of its own."""
    return tuple(HarvestPart(((node, node),), size) for node, size in sizes.items())


def offer(
    machine: Machine[Any],
    sizes: Mapping[int, Amount],
    *,
    revision: int | None = None,
    sequence: int | None = None,
) -> Decision:
    """The harvester proposes these sizes."""
    known = machine.state.image.harvest.revision if revision is None else revision
    seen = machine.sequence(EU_LOG) if sequence is None else sequence
    return machine.hear(OfferHarvest(EU, known, parts_of(sizes), seen))


def recall(machine: Machine[Any], sizes: Mapping[int, Amount]) -> Decision:
    """The pool's settings allow no more than these sizes."""
    return machine.hear(RecallHarvest(EU, machine.state.image.harvest.revision, parts_of(sizes)))


def release(machine: Machine[Any], *nodes: int, revision: int | None = None, lost: int = 0) -> Decision:
    """The servers of these nodes have left what was recalled."""
    known = machine.state.image.harvest.revision if revision is None else revision
    return machine.hear(ReleaseHarvest(EU, tuple(NodeReleased(node, known, lost) for node in nodes)))


def lend(machine: Machine[Any], workload: str, node: int, size: Amount, number: int) -> Decision:
    """Tasks of an attempt lend so much."""
    return machine.hear(TaskLends(EU, workload, 1, node, size, number))


def harvested(machine: Machine[Any], node: int) -> HarvestedNode:
    """What the store knows of a node."""
    known: HarvestedNode = machine.state.image.harvest.nodes[node]
    return known


# The harvester.


def a_harvester(start: Start, settings: PoolSettings = ON) -> Machine[Any]:
    """The harvester of a region with worker `w0` and nodes 0 to 3, whose function server was heard."""
    machine = start(Harvester(EU, ("r0",)))
    machine.fact(GLOBAL_LOG, RegionAdded(EU))
    machine.fact(EU_LOG, joined(), PoolChanged(POOL, settings))
    machine.wake()
    sized(machine)
    return machine


def sized(
    machine: Machine[Any], uses: Mapping[int, Amount] | None = None, *, revision: int | None = None
) -> Decision:
    """The function server of worker `w0` says what it uses."""
    known = machine.state.image.harvest.revision if revision is None else revision
    told = tuple(NodeUse(node, used) for node, used in (uses or {}).items())
    return machine.hear(ServerSized(EU, "w0", known, told))


def show(machine: Machine[Any]) -> Decision:
    """An operator asks."""
    return machine.hear(ShowHarvest(EU))
