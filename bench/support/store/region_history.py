"""A region's life as its log tells it: nodes joined, gangs of one to eight nodes that run, save and end, for ever."""

import random
from collections import deque
from collections.abc import Iterator

from core.events.log import LogOpened
from core.events.region import (
    AttemptEnded,
    AttemptsForgotten,
    CheckpointCommitted,
    ClaimGranted,
    GangStarted,
    NodesJoined,
)
from core.fact import Event, Fact
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import AgentName, ClaimId, LogName, WorkerName, WorkloadId, region_of
from core.nouns.instant import MILLISECOND, Instant, seconds
from core.nouns.placement import Claim, Spread, View
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, EndCause, JobSpec

WORKERS = 20
NODES_PER_WORKER = 100
NODE = Amount(gpu_milli=8_000, cpu_milli=192_000, memory_bytes=2 << 40)
TASK = Amount(gpu_milli=8_000, cpu_milli=96_000, memory_bytes=1 << 40)
CHECKPOINTS = 5
FORGOTTEN_AT_ONCE = 500
STARTED_AT = Instant(1_700_000_000_000_000_000)


class RegionHistory:
    """An endless one, the same every time."""

    def __init__(self, log: LogName) -> None:
        self._log = log
        self._region = region_of(log)
        self._dice = random.Random(1)
        self._sequence = 0
        self._granted = 0
        self._free = deque(range(WORKERS * NODES_PER_WORKER))
        self._live: list[tuple[WorkloadId, tuple[int, ...], int]] = []
        """Workload, nodes, and checkpoints still to come."""
        self._ended: list[tuple[WorkloadId, int]] = []

    def facts(self) -> Iterator[Fact]:
        """One after the other."""
        yield self._fact(LogOpened(log_id="bench", term=1, fleet="bench", build="0"))
        for number in range(WORKERS):
            yield self._fact(_joined(number))
        while True:
            if len(self._free) >= 8:
                yield from self._grant()
            else:
                yield self._step()
            if len(self._ended) >= FORGOTTEN_AT_ONCE:
                forgotten, self._ended = tuple(self._ended), []
                yield self._fact(AttemptsForgotten(attempts=forgotten, global_sequence=self._granted))

    def _grant(self) -> Iterator[Fact]:
        self._granted += 1
        workload = WorkloadId(f"w-{self._granted}")
        count = self._dice.choice((1, 1, 1, 1, 2, 2, 4, 8))
        nodes = tuple(sorted(self._free.popleft() for _ in range(count)))
        yield self._fact(
            ClaimGranted(workload=workload, epoch=1, claim=self._claim(workload, nodes), is_merged=False)
        )
        yield self._fact(GangStarted(workload=workload, epoch=1))
        self._live.append((workload, nodes, CHECKPOINTS))

    def _claim(self, workload: WorkloadId, nodes: tuple[int, ...]) -> Claim:
        work = Emulation(work=seconds(3600), checkpoint_every=seconds(600))
        return Claim(
            claim=ClaimId(f"agent-1.{workload}.1.1"),
            region=self._region,
            agent=AgentName("agent-1"),
            workload=workload,
            epoch=1,
            award_sequence=2 * self._granted,
            priority=3,
            kind="training",
            jobs=(JobSpec("trainer", len(nodes), TASK, "H100", work),),
            spreads=(Spread(nodes, (1,) * len(nodes)),),
            view=View(sequence=self._sequence, seed=f"agent-1.{workload}.1.1"),
        )

    def _step(self) -> Fact:
        """Some gang saves, or ends."""
        place = self._dice.randrange(len(self._live))
        workload, nodes, checkpoints = self._live[place]
        if checkpoints:
            self._live[place] = (workload, nodes, checkpoints - 1)
            return self._fact(
                CheckpointCommitted(workload=workload, epoch=1, step=1_000 * (CHECKPOINTS - checkpoints))
            )
        self._live[place] = self._live[-1]
        self._live.pop()
        self._free.extend(nodes)
        self._ended.append((workload, 1))
        return self._fact(AttemptEnded(workload=workload, epoch=1, cause=EndCause.COMPLETED))

    def _fact(self, event: Event) -> Fact:
        self._sequence += 1
        at = Instant(STARTED_AT + self._sequence * MILLISECOND)
        return Fact(self._log, self._sequence, at, f"worker-1.01234567.{self._sequence}", "worker-1", event)


def _joined(number: int) -> NodesJoined:
    worker = WorkerName(f"worker-{number}")
    group = NodeGroup(number * NODES_PER_WORKER, NODES_PER_WORKER, NODE, "H100", number * 25, 4)
    return NodesJoined(worker=worker, inventory=Inventory(worker, (group,)))
