"""A region as MAST's largest, nearly full, in which work comes, is pushed out, checkpoints and ends: what `decision` asks an agent of.

Twenty clusters: five pools in four zones, three of GPU machines and two of CPU machines. Whatever is bid for is granted and
told as the region's log tells it, and so much ends that the region stays as full as it was.

source    MAST §4.3.1: 20 dynamic clusters, 64,000 CPU machines, 20,000 GPUs; spec/mast-twine.md §4: who asks for how much, and at
          which priority
"""

import random
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from components.allocation_agent.component import AllocationAgent
from components.allocation_agent.state import AgentState
from components.job_queue.state.refusal_expiry import Resource
from core.component import Decision, Images, RowsTold
from core.events.region import (
    AttemptEnded,
    CheckpointCommitted,
    ClaimGranted,
    GangStarted,
    NodesJoined,
    StopOrdered,
)
from core.fact import NO_LOG, Event, Fact, Note
from core.images import RegionImage
from core.messages.agents import BidSettled, FindBid
from core.messages.base import Envelope, Message
from core.messages.broker import SolicitBid
from core.messages.queue import Bid
from core.nouns.fleet import CPU_TYPE, Inventory, NodeGroup
from core.nouns.ids import AgentName, ClaimId, RegionName, WorkerName, WorkloadId, region_log
from core.nouns.instant import SECOND, Instant
from core.nouns.limits import CLASSES_FRESH
from core.nouns.placement import Claim, Spread, View, gpu_milli_of
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import EndCause, JobSpec, Kind
from core.placing.placer import SECTIONS
from core.rows import pack_rows
from core.touched import touched_by

EAST = RegionName("east")
LOG = region_log(EAST)
ZONES, NODES_A_RACK, RACKS_A_POD = 4, 16, 16
GPU_POOLS = {"training": "H100", "research": "A100", "vision": "V100"}
CPU_POOLS = ("readers", "simulation")
GPU_NODES, CPU_NODES = 2_500, 64_000
FULL_PERMILLE = 980
GPUS = 8
GPU_MACHINE = Amount(GPUS * MILLI, 128_000, 2 << 40)
CPU_MACHINE = Amount(0, 64_000, 256 << 30)
GPUS_A_WORKLOAD = ((1, 2, 4, 8, 16, 32, 64, 128, 256), (4, 4, 8, 24, 22, 18, 14, 5.2, 0.8))
LEVELS = ((6, 5, 4, 3, 2, 1, 0), (3, 20, 16, 54, 0.2, 0.5, 6.02))
"""Priorities, and how many workloads in a hundred have each; those that name none have the lowest."""
GPU_SHARE = 0.7
READERS_SHARE = 0.2
"""Of workloads with GPUs, those that have readers on CPU machines beside: two jobs, in two clusters."""
MACHINES = (24, 72, 180, 205)
"""Of a workload without GPUs: drawn between the first and the median, the median and p90, or p90 and p99 (50, 40, 10 of 100)."""
CHECKPOINT_SECONDS = 600


class Answer(Struct, frozen=True):
    """What an agent said to one request."""

    workload: WorkloadId
    jobs: tuple[JobSpec, ...]
    priority: int
    bid: Bid | None


class FullRegion:
    """The region at `scale` times its published size, and its agent."""

    def __init__(self, scale: int, seed: int = 1) -> None:
        self.dice = random.Random(seed)
        self.scale = scale
        self._sequence, self._requests, self._now = 0, 0, 1_000 * SECOND
        self.on_end: Callable[[int, Mapping[Resource, int]], object] = lambda *_: None
        """Told of each attempt's end: the sequence of its fact, and what came free."""
        self._running: list[WorkloadId] = []
        self._place: dict[WorkloadId, int] = {}
        image = RegionImage.empty(SECTIONS)
        self._groups = list(self._clusters())
        for group in self._groups:
            worker = WorkerName(f"w{group.first}")
            image.fold(self._fact(NodesJoined(worker, Inventory(worker, (group,)))))
        for event in self._filled():
            image.fold(self._fact(event))
        self.agent = AllocationAgent(EAST, AgentName("a0"))
        self.state: AgentState = self.agent.initial(Images(self.now, None, {LOG: (image, self._sequence)}))
        self.empty_to(FULL_PERMILLE)

    @property
    def now(self) -> Instant:
        """The region's time."""
        return Instant(self._now)

    @property
    def running(self) -> int:
        """How many attempts hold something."""
        return len(self._running)

    def _fact(self, event: Event | Note) -> Fact:
        self._sequence += 1
        return Fact(LOG, self._sequence, self.now, "bench", "bench", event)

    # What it is made of.

    def _clusters(self) -> Iterator[NodeGroup]:
        first = rack = 0
        pools = [(pool, gpu_type, GPU_MACHINE, GPU_NODES / 3) for pool, gpu_type in GPU_POOLS.items()]
        pools += [(pool, CPU_TYPE, CPU_MACHINE, CPU_NODES / 2) for pool in CPU_POOLS]
        for zone in range(ZONES):
            for pool, gpu_type, machine, nodes in pools:
                count = round(nodes * self.scale / ZONES)
                where = f"zone-{zone}"
                yield NodeGroup(
                    first,
                    count,
                    machine,
                    gpu_type,
                    rack,
                    NODES_A_RACK,
                    zone=where,
                    power_domain=f"power-{len(pools) * zone}",
                    pool=pool,
                )
                first += count
                rack += -(-count // (NODES_A_RACK * RACKS_A_POD)) * RACKS_A_POD

    def _filled(self) -> Iterator[Event]:
        """Cluster by cluster, node by node."""
        for group in self._groups:
            free = [parts_of(group.total)] * group.count
            at = 0
            while at < group.count:
                self._now += SECOND
                job = self.job_on(group.gpu_type)
                each = parts_of(job.need)
                per_node = min(job.tasks, free[at] // each)
                if not per_node:
                    at += 1
                    continue
                nodes: dict[int, int] = {}
                left = job.tasks
                while left and at < group.count:
                    here = min(left, free[at] // each)
                    if here:
                        nodes[group.first + at] = here
                        free[at] -= here * each
                        left -= here
                    if left:
                        at += 1
                spread = Spread(tuple(nodes), tuple(nodes.values()))
                jobs = (replace(job, tasks=job.tasks - left),)
                yield from self._granted(self.next_name(), jobs, (spread,), self.level())

    # What is asked for.

    def next_name(self) -> WorkloadId:
        """Nobody was called so before."""
        self._requests += 1
        return WorkloadId(f"w-{self._requests}")

    def level(self) -> int:
        """A priority."""
        return self.dice.choices(*LEVELS)[0]

    def job_on(self, gpu_type: str) -> JobSpec:
        """A job on machines of this sort."""
        if gpu_type == CPU_TYPE:
            low = self.dice.choices((0, 1, 2), (50, 40, 10))[0]
            return readers(self.dice.randint(MACHINES[low], MACHINES[low + 1]))
        gpus = self.dice.choices(*GPUS_A_WORKLOAD)[0]
        each = min(gpus, GPUS)
        return JobSpec("main", gpus // each, Amount(each * MILLI, each * 8_000, each * (32 << 30)), gpu_type)

    def workload(self) -> tuple[JobSpec, ...]:
        """The jobs of the next that comes."""
        if self.dice.random() >= GPU_SHARE:
            return (self.job_on(CPU_TYPE),)
        main = self.job_on(self.dice.choice(list(GPU_POOLS.values())))
        if self.dice.random() >= READERS_SHARE:
            return (main,)
        return main, readers(max(1, gpu_milli_of((main,)) // (8 * MILLI)), "readers")

    def request(self) -> tuple[Envelope, tuple[JobSpec, ...], int]:
        """The next that comes, as the agent hears it."""
        jobs, level = self.workload(), self.level()
        return self.asked(jobs, level), jobs, level

    def asked(self, jobs: tuple[JobSpec, ...], level: int) -> Envelope:
        """These jobs at this level, for a workload of its own."""
        name = self.next_name()
        asked = SolicitBid(EAST, name, f"auction-{name}", jobs, level, Kind.TRAINING)
        return self.envelope(FindBid(EAST, self.agent.agent, asked))

    def envelope(self, message: Message) -> Envelope:
        """As the host hands it in."""
        return Envelope(message, "broker", "1", self.now)

    # What happens.

    def take(self, envelope: Envelope, decision: Decision, jobs: tuple[JobSpec, ...], level: int) -> Answer:
        """Everything that a decision leads to: victims end, the award is granted, and others end in their time."""
        asked = envelope.message
        assert isinstance(asked, FindBid)
        self.note(decision)
        (said,) = decision.messages
        workload, auction = asked.request.workload, asked.request.auction
        if not isinstance(said, Bid):
            return Answer(workload, jobs, level, None)
        for victim in said.victims:
            self._end(victim[0], EndCause.PREEMPTED)
        settled = BidSettled(EAST, self.agent.agent, workload, auction, has_won=False)
        self.note(self.agent.decide(self.state, self.envelope(settled)))
        for event in self._granted(workload, jobs, said.spreads, level):
            self.happen(event)
        return Answer(workload, jobs, level, said)

    def pass_time(self, seconds: int) -> None:
        """Checkpoints as they come, and as much ends as must, so that the region is no fuller than it was."""
        self._now += seconds * SECOND
        due = self.running * seconds / CHECKPOINT_SECONDS
        for _ in range(int(due) + (self.dice.random() < due % 1)):
            self.happen(CheckpointCommitted(self.dice.choice(self._running), 1, 7))
        self.empty_to(FULL_PERMILLE)

    def beat(self) -> None:
        """The agent's, at which it brings up to date what it will be asked for next."""
        self.state.placer.refresh_classes(CLASSES_FRESH)

    def empty_to(self, permille: int) -> None:
        """Work ends, whichever, until no more than this is held of GPU machines, and of the others."""
        capacity = self.state.image.capacity
        while True:
            held = self._held_permille()
            if max(held) <= permille:
                return
            workload = self.dice.choice(self._running)
            jobs = capacity.holdings[workload][1].claim.jobs
            is_cpu = jobs[0].gpu_type == CPU_TYPE
            if held[is_cpu] > permille:
                self._end(workload, EndCause.COMPLETED)

    def _held_permille(self) -> tuple[int, int]:
        """Of GPUs, and of CPU machines."""
        pools = self.state.placer.pools.by_name
        if not pools:
            self.state.placer.refresh()
            pools = self.state.placer.pools.by_name
        gpus = sum(sum(pools[name].table.clusters.total) for name in GPU_POOLS)
        gpus_free = sum(pools[name].table.gpu_free for name in GPU_POOLS)
        machines = sum(group.count for group in self._groups if group.gpu_type == CPU_TYPE)
        cpus_free = sum(int(pools[name].table.cpu.sum()) for name in CPU_POOLS)
        return 1000 - 1000 * gpus_free // gpus, 1000 - 1000 * cpus_free // (machines * CPU_MACHINE.cpu_milli)

    def _granted(
        self, workload: WorkloadId, jobs: tuple[JobSpec, ...], spreads: tuple[Spread, ...], level: int
    ) -> Iterator[Event]:
        claim = Claim(
            ClaimId(f"{workload}.1"),
            EAST,
            AgentName("a9"),
            workload,
            1,
            1,
            level,
            Kind.TRAINING,
            jobs,
            spreads,
            View(0),
        )
        self._place[workload] = len(self._running)
        self._running.append(workload)
        yield ClaimGranted(workload, 1, claim, is_merged=False)
        yield GangStarted(workload, 1)

    def _end(self, workload: WorkloadId, cause: EndCause) -> None:
        index, last = self._place.pop(workload), self._running.pop()
        if last != workload:
            self._running[index], self._place[last] = last, index
        if cause is EndCause.PREEMPTED:
            self.happen(StopOrdered(workload, 1, cause))
        jobs = self.state.image.capacity.holdings[workload][1].claim.jobs
        bare = sum(job.need.cpu_milli * job.tasks for job in jobs if job.gpu_type == CPU_TYPE)
        self.happen(AttemptEnded(workload, 1, cause))
        self.on_end(
            self._sequence, {Resource.GPU: max(1, gpu_milli_of(jobs)), Resource.BARE_CPU: max(1, bare)}
        )

    def happen(self, event: Event) -> None:
        """One fact, and the rows that are told beside it."""
        capacity = self.state.image.capacity
        fact = self._fact(event)
        touched = touched_by(capacity, fact)
        self.agent.evolve(self.state, fact)
        rows = RowsTold(LOG, self._sequence, pack_rows(capacity, touched))
        self.agent.evolve(self.state, Fact(NO_LOG, 0, fact.at, "bench", "bench", rows))

    def note(self, decision: Decision) -> None:
        """What the agent decided for itself."""
        for event in decision.events:
            assert isinstance(event, Note), event
            self.agent.evolve(self.state, Fact(NO_LOG, 0, self.now, "bench", "bench", event))


def readers(machines: int, name: str = "main") -> JobSpec:
    """A job on whole CPU machines."""
    return JobSpec(name, machines, replace(CPU_MACHINE, memory_bytes=128 << 30), CPU_TYPE)


def parts_of(amount: Amount) -> int:
    """GPUs; of what has or wants none, whole CPU machines."""
    return amount.gpu_milli // MILLI or amount.cpu_milli // CPU_MACHINE.cpu_milli
