"""How many more claims would be conflicts if the store went by sequences instead of by what fits.

Detection by sequence refuses a claim as soon as one of its nodes has changed since its view, whether or not it still fits. It
is measured here for comparison alone: the store never does it. Both are counted on one stream of claims, which the store
judges by what fits.

source    Omega §5.2: coarse detection raises conflicts 2-3 times (spec/protean-parsync.md §3.1)
"""

import random

from msgspec import Struct

from bench.support.agents.lagging import Asked, Crowd
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import WorkerName, WorkloadId
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import JobSpec

GPUS, NODES_A_RACK = 8, 16
NODE = Amount(GPUS * MILLI, 128_000, 2 << 40)
GPU_TYPE = "H100"
SIZES, WEIGHTS = (1, 2, 4, 8), (40, 15, 15, 30)
"""GPUs of a task, and how many in a hundred ask for so many (spec/protean-parsync.md §6.4)."""
GANG_SHARE, GANG_TASKS = 0.1, (2, 8)
"""Of requests that are gangs, and how many tasks they have: from, to."""


class Detected(Struct, frozen=True):
    """One stream of claims, counted in both ways."""

    claims: int
    by_fit: int
    """That no longer fitted: conflicts as the store finds them."""
    by_sequence: int
    """With a node that had changed since their view."""

    @property
    def ratio(self) -> float:
        """Conflicts by sequence for one by fit; by sequence alone where none was found by fit."""
        return self.by_sequence / max(1, self.by_fit)


def detected(
    *,
    nodes: int = 4_096,
    agents: int = 16,
    lag: int = 64,
    requests: int = 2_000,
    used: float = 0.85,
    stripes: bool = True,
    seed: int = 1,
) -> Detected:
    """So many requests to agents that lag, in a region that is kept so full.

    lag       facts that an agent does not know of yet
    used      the share of GPUs from which on a workload ends for each that comes
    stripes   whether agents look at different pods first, as brokers let them
    """
    crowd = Crowd(inventories(nodes), agents=agents, lag=lag, stripes=stripes)
    dice = random.Random(seed)
    running: list[WorkloadId] = []
    gpus: dict[WorkloadId, int] = {}
    held = 0
    for _ in range(requests // agents):
        asked = [drawn_request(dice) for _ in range(agents)]
        names = crowd.place(*asked)
        for name, one in zip(names, asked, strict=True):
            if crowd.capacity.holding(name, 1) is not None:
                running.append(name)
                gpus[name] = sum(job.tasks * job.need.gpu_milli for job in one.jobs) // MILLI
                held += gpus[name]
        while held > used * nodes * GPUS:
            index = dice.randrange(len(running))
            running[index], running[-1] = running[-1], running[index]
            gone = running.pop()
            held -= gpus[gone]
            crowd.end(gone)
    return counted(crowd)


def counted(crowd: Crowd) -> Detected:
    """What came of a crowd's claims."""
    by_fit = sum(verdict == "conflict" for _, verdict, _ in crowd.claims)
    return Detected(len(crowd.claims), by_fit, sum(is_old for _, _, is_old in crowd.claims))


def figures(*, is_quick: bool = False) -> dict[str, float]:
    """Of a benchmark of commits: the ratio where agents all want the same nodes, so that there are conflicts to count; and both
    shares of the claims where each looks at its own pods first.
    """
    requests = 240 if is_quick else 2_000
    crowded, apart = detected(requests=requests, stripes=False), detected(requests=requests)
    return {
        "sequence_conflicts_ratio": crowded.ratio,
        "sequence_conflicts_share": apart.by_sequence / apart.claims,
        "fit_conflicts_share": apart.by_fit / apart.claims,
    }


def drawn_request(dice: random.Random) -> Asked:
    """Return a request of the mix."""
    gpus = dice.choices(SIZES, WEIGHTS)[0]
    tasks = dice.randint(*GANG_TASKS) if dice.random() < GANG_SHARE else 1
    return Asked((JobSpec("main", tasks, Amount(gpus * MILLI, gpus * 4_000, gpus << 34), GPU_TYPE),))


def inventories(nodes: int) -> list[Inventory]:
    """Return the nodes of the region, served by one worker."""
    name = WorkerName("w0")
    return [Inventory(name, (NodeGroup(0, nodes, NODE, GPU_TYPE, 0, NODES_A_RACK, zone="zone-0"),))]
