"""A small region that is nearly full of work of all levels, and a placer that is told of all that happens there."""

import random

from msgspec.structs import replace

from core.claims.checks import nodes_without_capacity
from core.events.region import (
    AttemptEnded,
    AttemptRanked,
    CheckpointCommitted,
    GangStarted,
    NodesJoined,
    StopOrdered,
)
from core.fact import Event
from core.images import RegionImage
from core.images.capacity import Capacity
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import TenantName, WorkerName
from core.nouns.instant import SECOND, Instant
from core.nouns.pool import UNSET, PoolSettings
from core.nouns.workload import EndCause, Extent, JobSpec, Kind, Topology
from core.placing.index.overlay import Overlay
from core.placing.placer import Placer
from core.placing.pool_set import Asker
from core.placing.preemption.victim_index import OF_VICTIMS
from core.rules.placement.rule_sets import PLAIN
from core.touched import LAYS_OUT, touched_by
from tests.builders import NODE, START, a_claim, a_fact, a_job, granted

LAB, OTHERS = TenantName("lab"), TenantName("others")
NODES, NODES_A_ZONE, NODES_A_RACK = 16, 8, 2
STEP = 20 * SECOND


class Crowded:
    """Two zones, two pools of H100 and A100, racks of two nodes."""

    def __init__(self, seed: int, settings: PoolSettings = UNSET) -> None:
        self.dice = random.Random(seed)
        self.image = RegionImage.empty()
        self.placer = Placer(self.capacity, Overlay(), lambda _: PLAIN, settings_of=lambda _: settings)
        self._sequence = self._drawn = 0
        groups = tuple(
            NodeGroup(
                first,
                4,
                NODE,
                "H100" if first % NODES_A_ZONE else "A100",
                first // NODES_A_RACK,
                NODES_A_RACK,
                zone=f"zone-{first // NODES_A_ZONE}",
                pool="training" if first % NODES_A_ZONE else "more",
            )
            for first in range(0, NODES, 4)
        )
        worker = WorkerName("w0")
        self.happen(NodesJoined(worker, Inventory(worker, groups)))

    @property
    def capacity(self) -> Capacity:
        """As it is now."""
        return self.image.capacity

    @property
    def now(self) -> Instant:
        """Its time."""
        return Instant(START + self._sequence * STEP)

    def happen(self, event: Event) -> None:
        """One fact, as an agent folds it."""
        self._sequence += 1
        fact = a_fact(event, self._sequence, at=self.now)
        touched = touched_by(self.capacity, fact)
        self.image.fold(fact)
        self.placer.touch(touched, joined=isinstance(event, LAYS_OUT))
        if isinstance(event, OF_VICTIMS):
            self.placer.settle(event.workload, event.epoch)
            self.placer.victims.settle(event.workload, event.epoch)

    def live_on(self, steps: int) -> None:
        """Work comes wherever it finds room, some of it starts, checkpoints, changes its level or ends."""
        for _ in range(steps):
            self._come()
            live = [(workload, epoch) for workload, epoch, held in self.capacity.live() if not held.is_ending]
            if not live:
                continue
            key = self.dice.choice(live)
            match self.dice.randrange(8):
                case 0:
                    self.happen(AttemptEnded(*key, EndCause.COMPLETED))
                case 1:
                    self.happen(StopOrdered(*key, EndCause.PREEMPTED))
                case 2 | 3:
                    self.happen(GangStarted(*key))
                case 4 | 5:
                    self.happen(CheckpointCommitted(*key, self._sequence))
                case 6:
                    self.happen(AttemptRanked(*key, self._sequence, self.dice.randint(0, 5)))

    def job(self) -> JobSpec:
        """Any that asks for something."""
        dice = self.dice
        topology = Topology(
            pack=dice.choice((Extent.ANY, Extent.ANY, Extent.RACK)), tasks_per_node=dice.choice((0, 0, 1))
        )
        gpus = dice.choice((0.5, 1, 2, 4, 8))
        job = a_job(
            dice.randint(1, 4), gpus, gpu_type=dice.choice(("H100", "A100")), cpus=dice.choice((0, 4))
        )
        return replace(job, topology=topology, is_alone=dice.random() < 0.2)

    def asker(self) -> Asker:
        """Somebody."""
        return Asker(tenant=LAB, priority=self.dice.randint(1, 6), at=self.now)

    def _come(self) -> None:
        dice = self.dice
        self._drawn += 1
        job = replace(self.job(), tasks=dice.randint(1, 3), topology=Topology())
        job = replace(job, is_alone=dice.random() < 0.1)
        kind = dice.choice((Kind.TRAINING, Kind.TRAINING, Kind.TRAINING, Kind.INTERACTIVE))
        for _ in range(6):
            first = dice.choice([n for n in range(NODES) if self.capacity.node_type[n] == job.gpu_type])
            nodes = [first + more for more in range(job.tasks) if first + more < NODES]
            placed = {node: 1 for node in nodes if self.capacity.node_type[node] == job.gpu_type}
            claim = a_claim(
                f"w-{self._drawn}",
                dice.randint(1, 3),
                placed,
                jobs=(replace(job, tasks=len(placed)),),
                priority=dice.randint(0, 5),
                kind=kind,
            )
            claim = replace(claim, tenant=dice.choice((LAB, OTHERS)), run_min=dice.choice((0, 0, 100 * STEP)))
            if not nodes_without_capacity(claim, self.capacity):
                self.happen(granted(claim))
                return
