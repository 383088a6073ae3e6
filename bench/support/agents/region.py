"""A region of many nodes, partly held, and an agent that follows it: what the benchmarks of agents search."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from components.allocation_agent.component import AllocationAgent
from components.allocation_agent.state import AgentState
from core.component import Images, RowsTold
from core.events.pools import PoolChanged
from core.events.region import AttemptEnded, ClaimGranted, NodesJoined
from core.fact import NO_LOG, Event, Fact, Note
from core.images import RegionImage
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import AgentName, ClaimId, RegionName, WorkerName, WorkloadId, region_log
from core.nouns.instant import SECOND, Instant
from core.nouns.placement import Claim, Spread, View
from core.nouns.pool import PoolSettings
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import EndCause, JobSpec, Kind
from core.placing.placer import SECTIONS
from core.rows import pack_rows
from core.touched import touched_by

EAST = RegionName("east")
LOG = region_log(EAST)
NODES_A_WORKER, NODES_A_RACK, ZONES, POWER_DOMAINS = 1_000, 16, 4, 20
GPUS, CPUS_MILLI, MEMORY = 8, 128_000, 2 << 40
GPU_TYPE = "H100"
POOL = "training"
USED_SHARE = 0.84
"""Of GPUs that are held, as in the specification's own measurements (§6.4)."""
ATTEMPTS_A_NODE = 1.3
"""Attempts that hold GPUs, each on one node."""
PAGE = os.sysconf("SC_PAGE_SIZE")


class AgentRegion:
    """The region, its agent, and what happens there one fact at a time."""

    def __init__(self, nodes: int, rules: str = "plain", seed: int = 1) -> None:
        self.nodes = nodes
        self.dice = random.Random(seed)
        self._sequence = 0
        self._workloads = 0
        resident = _resident_bytes()
        image = RegionImage.empty(SECTIONS)
        for event in (*self._joins(), *self._held()):
            image.fold(self._fact(event))
        self.image_resident_bytes = _resident_bytes() - resident
        """Growth of this process's memory while the image was folded."""
        self.agent = AllocationAgent(EAST, AgentName("a0"))
        at = Instant(0)
        self.state: AgentState = self.agent.initial(Images(at, None, {LOG: (image, self._sequence)}))
        self._small: list[WorkloadId] = []
        self.fold_spans: list[float] = []
        """What each change cost the agent: the fact in its image, and the row told beside it in its arrays. Seconds."""
        self.set_rules(rules)

    def _fact(self, event: Event | Note) -> Fact:
        self._sequence += 1
        return Fact(LOG, self._sequence, Instant(self._sequence * SECOND // 2_000), "bench", "bench", event)

    def _joins(self) -> Iterator[Event]:
        total = Amount(GPUS * MILLI, CPUS_MILLI, MEMORY)
        workers = -(-self.nodes // NODES_A_WORKER)
        for number in range(workers):
            first = number * NODES_A_WORKER
            count = min(NODES_A_WORKER, self.nodes - first)
            group = NodeGroup(
                first,
                count,
                total,
                GPU_TYPE,
                number * -(-NODES_A_WORKER // NODES_A_RACK),
                NODES_A_RACK,
                zone=f"zone-{number * ZONES // workers}",
                power_domain=f"power-{number * POWER_DOMAINS // workers}",
            )
            yield NodesJoined(WorkerName(f"w{number}"), Inventory(WorkerName(f"w{number}"), (group,)))

    def _held(self) -> Iterator[Event]:
        """Grant each node 0 to 8 GPUs: to one attempt, or on so many full nodes to two that there are 1.3 attempts a node."""
        dice = np.random.default_rng(7)
        used = dice.choice(GPUS + 1, self.nodes, p=_shares())
        full = np.flatnonzero(used == GPUS)
        halved = round(ATTEMPTS_A_NODE * self.nodes) - np.count_nonzero(used)
        assert 0 <= halved <= len(full), (halved, len(full))
        parts = np.ones(self.nodes, dtype=np.int64)
        parts[dice.permutation(full)[:halved]] = 2
        for node in np.flatnonzero(used).tolist():
            each = int(used[node]) // int(parts[node])
            for _ in range(parts[node]):
                yield self._granted(_job(each, 1), Spread((node,), (1,)))

    def _granted(self, job: JobSpec, spread: Spread) -> ClaimGranted:
        self._workloads += 1
        workload = WorkloadId(f"w-{self._workloads}")
        claim = Claim(
            ClaimId(f"{workload}.1"),
            EAST,
            AgentName("a9"),
            workload,
            1,
            1,
            3,
            Kind.TRAINING,
            (job,),
            (spread,),
            View(0),
        )
        return ClaimGranted(workload, 1, claim, is_merged=False)

    def set_rules(self, rules: str) -> None:
        """Every pool is searched by this rule set from now on."""
        self.agent.evolve(self.state, self._fact(PoolChanged(POOL, PoolSettings(rules))))

    def happen(self) -> None:
        """One change of one node, as the region's log tells it: one GPU is granted or comes free."""
        capacity = self.state.image.capacity
        if self._small and self.dice.random() < 0.5:
            index = self.dice.randrange(len(self._small))
            self._small[index], self._small[-1] = self._small[-1], self._small[index]
            event: Event = AttemptEnded(self._small.pop(), 1, EndCause.COMPLETED)
        else:
            node = self.dice.randrange(self.nodes)
            while capacity.gpu.free[node] < MILLI:
                node = self.dice.randrange(self.nodes)
            event = self._granted(_job(1, 1), Spread((node,), (1,)))
            self._small.append(event.workload)
        fact = self._fact(event)
        touched = touched_by(capacity, fact)
        begun = time.perf_counter()
        self.agent.evolve(self.state, fact)
        folded = time.perf_counter()
        rows = RowsTold(LOG, self._sequence, pack_rows(capacity, touched))
        note = Fact(NO_LOG, 0, fact.at, "bench", "bench", rows)
        told = time.perf_counter()
        self.agent.evolve(self.state, note)
        self.fold_spans.append(folded - begun + time.perf_counter() - told)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def _shares() -> list[float]:
    """How many nodes hold 0 to 8 GPUs: 12 % are empty, 74 % are full, the rest is in between."""
    return [0.12, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.74]


def _job(gpus: int, tasks: int) -> JobSpec:
    return JobSpec("main", tasks, Amount(gpus * MILLI, gpus * 4_000, gpus * (16 << 30)), GPU_TYPE)


def classes(count: int) -> list[JobSpec]:
    """Jobs of one task, each of another class: GPUs 1, 2, 4 and 8 as 40, 15, 15 and 30 in a hundred, and so many CPUs and bytes."""
    dice = random.Random(3)
    found: dict[Amount, JobSpec] = {}
    while len(found) < count:
        gpus = dice.choices((1, 2, 4, 8), (40, 15, 15, 30))[0]
        need = Amount(gpus * MILLI, dice.randrange(1, 15) * 1_000, dice.randrange(1, 200) << 30)
        found.setdefault(need, JobSpec("main", 1, need, GPU_TYPE))
    return list(found.values())


def zipf(count: int, exponent: float) -> list[float]:
    """How often each of so many is asked for, relative to the first."""
    return [1 / rank**exponent for rank in range(1, count + 1)]
