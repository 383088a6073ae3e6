"""The log of a large region: nodes join, 1.3 attempts a node are granted and started, and from then on attempts save, end and are
granted anew, for ever.
"""

import random
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
from core.nouns.ids import AgentName, ClaimId, LogName, TenantName, WorkerName, WorkloadId, region_of
from core.nouns.instant import MILLISECOND, Instant, seconds
from core.nouns.placement import Claim, Spread, View
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Emulation, EndCause, JobSpec, Kind

FLEET = "bench"
NODES_A_WORKER, NODES_A_RACK, ZONES, POWER_DOMAINS = 1_000, 16, 4, 20
NODE = Amount(8 * MILLI, 192_000, 2 << 40)
ATTEMPTS_A_NODE = 1.3
TENANTS, FAMILIES, AGENTS = 200, 2_000, 16
FORGOTTEN_AT_ONCE = 200
CHECKPOINTS_IN_HUNDRED = 70
"""Of what happens to attempts that run; the others end, and as many are granted in their place."""
STARTED_AT = Instant(1_700_000_000_000_000_000)


class BusyRegion:
    """One region's log, the same every time."""

    def __init__(self, log: LogName, nodes: int) -> None:
        self.log = log
        self.nodes = nodes
        self.sequence = 0
        self._dice = random.Random(nodes)
        self._at = int(STARTED_AT)
        self._granted = 0
        self._families = [self._family(number) for number in range(FAMILIES)]
        self._live: list[tuple[WorkloadId, int, int]] = []
        """Workload, node, and the step of its newest checkpoint."""
        self._ended: list[tuple[WorkloadId, int]] = []

    def beginning(self) -> Iterator[Fact]:
        """Until every attempt runs."""
        yield self._fact(LogOpened("bench", 1, FLEET, "0"))
        workers = -(-self.nodes // NODES_A_WORKER)
        for number in range(workers):
            yield self._fact(self._joined(number, workers))
        # Three nodes in ten hold two attempts, the others one.
        places = list(range(self.nodes))
        places += self._dice.sample(places, round((ATTEMPTS_A_NODE - 1) * self.nodes))
        self._dice.shuffle(places)
        for node in places:
            yield from self._begin(node)

    def life(self) -> Iterator[Fact]:
        """What happens from then on."""
        while True:
            place = self._dice.randrange(len(self._live))
            workload, node, step = self._live[place]
            if self._dice.randrange(100) < CHECKPOINTS_IN_HUNDRED:
                step += self._dice.randrange(1, 5_000)
                self._live[place] = (workload, node, step)
                yield self._fact(CheckpointCommitted(workload=workload, epoch=1, step=step))
                continue
            self._live[place] = self._live[-1]
            self._live.pop()
            self._ended.append((workload, 1))
            yield self._fact(AttemptEnded(workload, 1, EndCause.COMPLETED))
            yield from self._begin(node)
            if len(self._ended) >= FORGOTTEN_AT_ONCE:
                forgotten, self._ended = tuple(self._ended), []
                yield self._fact(AttemptsForgotten(attempts=forgotten, global_sequence=3 * self._granted))

    def _joined(self, number: int, workers: int) -> NodesJoined:
        worker = WorkerName(f"worker-{number}")
        first = number * NODES_A_WORKER
        group = NodeGroup(
            first,
            min(NODES_A_WORKER, self.nodes - first),
            NODE,
            "H100",
            number * -(-NODES_A_WORKER // NODES_A_RACK),
            NODES_A_RACK,
            zone=f"zone-{number * ZONES // workers}",
            power_domain=f"power-{number * POWER_DOMAINS // workers}",
        )
        return NodesJoined(worker, Inventory(worker, (group,)))

    def _begin(self, node: int) -> Iterator[Fact]:
        self._granted += 1
        workload = WorkloadId(f"w-{self._granted}")
        claim = self._claim(workload, node)
        yield self._fact(ClaimGranted(workload, 1, claim, is_merged=self._dice.random() < 0.2))
        yield self._fact(GangStarted(workload, 1))
        self._live.append((workload, node, 0))

    def _claim(self, workload: WorkloadId, node: int) -> Claim:
        dice = self._dice
        agent = AgentName(f"a{dice.randrange(AGENTS)}")
        claim = ClaimId(f"{agent}.{workload}.1.1")
        family = dice.randrange(FAMILIES)
        return Claim(
            claim=claim,
            region=region_of(self.log),
            agent=agent,
            workload=workload,
            epoch=1,
            award_sequence=3 * self._granted + dice.randrange(50),
            priority=dice.randrange(7),
            kind=Kind.TRAINING,
            jobs=(self._families[family],),
            spreads=(Spread((node,), (1,)),),
            view=View(
                sequence=max(0, self.sequence - dice.randrange(20)),
                seed=claim,
                stripe=dice.randrange(AGENTS),
                stripes=AGENTS,
                at=self._at,
            ),
            tenant=TenantName(f"tenant-{family % TENANTS}"),
        )

    def _family(self, number: int) -> JobSpec:
        dice = self._dice
        gpus = dice.choice((1, 2, 4))
        need = Amount(
            gpus * MILLI, gpus * dice.randrange(4_000, 20_000), gpus * dice.randrange(16, 200) << 30
        )
        work = Emulation(work=seconds(dice.randrange(600, 86_400)), checkpoint_every=seconds(600))
        return JobSpec(f"job-{number}", 1, need, "H100", work)

    def _fact(self, event: Event) -> Fact:
        self.sequence += 1
        self._at += self._dice.randrange(2 * MILLISECOND)
        said = f"agent.east.a{self._dice.randrange(AGENTS)}"
        cause = f"{said}.{self._dice.getrandbits(32):08x}.{self.sequence}"
        return Fact(self.log, self.sequence, Instant(self._at), cause, said, event)
