"""Regions whose work lies scattered, drawn from a seed: what plans of moves are tried on."""

import random

from msgspec.structs import replace

from core.claims.checks import check_nodes, check_now, nodes_without_capacity
from core.events.control import NodesClosed
from core.events.pools import PoolChanged
from core.events.region import CheckpointCommitted, GangStarted, NodesJoined, StopOrdered
from core.fact import Event
from core.images import RegionImage
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import TenantName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import ControlSpec
from core.nouns.placement import Claim
from core.nouns.pool import PoolSettings
from core.nouns.workload import EndCause, Extent, Kind, Topology
from core.placing.index.owners import Now, Owners
from tests.builders import NODE, START, a_claim, a_fact, a_job, a_spread, granted, opened

NODES_A_RACK = 2


class Scattered:
    """A region to which facts happen, a second apart."""

    def __init__(self, nodes: int, *, zones: int = 1) -> None:
        self.image = RegionImage.empty()
        self.sequence = 0
        self.workloads = 0
        per_zone = nodes // zones
        groups = tuple(
            NodeGroup(
                zone * per_zone,
                per_zone,
                NODE,
                "H100",
                zone * per_zone // NODES_A_RACK,
                NODES_A_RACK,
                zone=f"zone-{zone}",
            )
            for zone in range(zones)
        )
        self.happen(opened(), NodesJoined(WorkerName("w0"), Inventory(WorkerName("w0"), groups)))

    @property
    def now(self) -> Instant:
        """A minute after the newest fact."""
        return Instant(START + (self.sequence + 60) * SECOND)

    def happen(self, *events: Event) -> None:
        """One after the other."""
        for event in events:
            self.sequence += 1
            self.image.fold(a_fact(event, self.sequence))

    def run(self, placed: dict[int, int], gpus: float = 1, *, cpus: float = 0, **more: object) -> WorkloadId:
        """A workload runs with so many tasks on each node."""
        self.workloads += 1
        jobs = (a_job(sum(placed.values()), gpus, cpus=cpus),)
        claim = a_claim(f"w-{self.workloads}", jobs=jobs, spreads=(a_spread(placed),))
        return self.start(replace(claim, **more))

    def start(self, claim: Claim) -> WorkloadId:
        """It is granted, and runs."""
        self.happen(granted(claim), GangStarted(claim.workload, claim.epoch))
        return claim.workload


def tiny(seed: int) -> Scattered:
    """Four nodes, and a handful of works on them: few enough for every possibility to be tried."""
    dice = random.Random(seed)
    region = Scattered(4)
    nodes = len(region.image.capacity.rack)
    free = [8] * nodes
    for number in range(dice.randint(3, 5)):
        gpus, tasks = dice.choice((1, 2, 3, 4, 6)), 1 if number else dice.choice((1, 2))
        open_to = [node for node in range(nodes) if free[node] >= gpus]
        if len(open_to) < tasks:
            continue
        chosen = dice.sample(open_to, tasks)
        for node in chosen:
            free[node] -= gpus
        kind = dice.choice((Kind.TRAINING, Kind.TRAINING, Kind.TRAINING, Kind.SERVICE, Kind.INTERACTIVE))
        workload = region.run(dict.fromkeys(chosen, 1), gpus, kind=kind)
        if kind is Kind.TRAINING and dice.random() < 0.5:
            region.happen(CheckpointCommitted(workload, 1, 1))
    return region


def mixed(seed: int) -> Scattered:
    """Two zones of ten nodes with everything that keeps work from lying where it likes."""
    dice = random.Random(seed)
    region = Scattered(20, zones=2)
    if dice.random() < 0.5:
        settings = PoolSettings(dice.choice(("", "plain")), dice.choice((0, 1, 2)), dice.choice((1000, 900)))
        region.happen(PoolChanged("training", settings))
    for _ in range(60):
        _place_one(region, dice)
    if dice.random() < 0.5:
        node = dice.randrange(20)
        region.happen(NodesClosed("d-1", ClosureKind.DRAIN, ((node, node),), "new PDU"))
    return region


def _place_one(region: Scattered, dice: random.Random) -> None:
    """Somewhere that the store would grant it, by chance and not by any preference."""
    gpus = dice.choice((0.25, 0.5, 1, 2, 4, 8))
    tasks = dice.choice((1, 1, 1, 2, 3))
    kind = dice.choice((Kind.TRAINING, Kind.TRAINING, Kind.BATCH, Kind.SERVICE, Kind.INTERACTIVE))
    topology = dice.choice(
        (
            Topology(),
            Topology(),
            Topology(pack=Extent.RACK),
            Topology(zones=("zone-1",)),
            Topology(tasks_per_node=1),
            Topology(spread=Extent.RACK),
        )
    )
    job = replace(
        a_job(tasks, gpus, cpus=dice.choice((0, 2, 30))), topology=topology, is_alone=dice.random() < 0.1
    )
    placed: dict[int, int] = {}
    for node in dice.choices(range(20), k=tasks):
        placed[node] = placed.get(node, 0) + 1
    region.workloads += 1
    claim = replace(
        a_claim(f"w-{region.workloads}", jobs=(job,), spreads=(a_spread(placed),), kind=kind),
        tenant=TenantName(dice.choice(("ada", "bob"))),
        control=ControlSpec(controller=dice.choice(("", "careful"))),
    )
    capacity = region.image.capacity
    now = Now(capacity, Owners.of(capacity))
    if (
        check_nodes(claim, capacity) is not None
        or check_now(claim, now)
        or nodes_without_capacity(claim, capacity)
    ):
        return
    workload = region.start(claim)
    if dice.random() < 0.4:
        region.happen(CheckpointCommitted(workload, 1, 1))
    elif dice.random() < 0.05:
        region.happen(StopOrdered(workload, 1, EndCause.REQUEUED))
