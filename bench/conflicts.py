"""How often agents choose the same nodes, and how much packing each way of keeping them apart costs.

One store and many agents without a bus (bench/support/agents/lagging.py); each agent learns of facts so many facts late. A region
of 10,240 nodes of 8 GPUs is kept 84 % full by requests of 1, 2, 4 and 8 GPUs (40, 15, 15 and 30 in a hundred), a tenth of them
gangs of 2 to 8 tasks. The ways:

    ties         every agent looks at the whole region and draws among equally good nodes
    n0           the same, and draws among the 64 best ones (Protean's N0)
    partitions   agents take in rows alone, and each looks first at partitions that no other agent owns; rounds are eight times as
                 long as the lag (docs/agents.md)

For each way, number of agents and lag: `conflict_share` of all claims, `gang_conflict_share` of the claims of gangs, and
`empty_lost`, the part of the empty nodes that a single agent without a lag keeps whole and this way does not.

A second load compares ways to place gangs that no owned rack holds: a fifth of its requests are gangs of 12 to 24 whole nodes, most
agents are there, and facts come 10 late. `wide_conflict_share` is of the claims of such gangs, and `wide_back_share` the part of all
requests that agents hand back:

    own_pods     as shipped: the agent's own pods first
    least_loaded_pod, gang_n0
                 bench/support/agents/gang_ways.py

    partition_conflict_share   the largest conflict share of partitions, of all numbers of agents and lags

source    Protean §3, ParSync; spec/protean-parsync.md §6.4
"""

# rows: E-P3, S11

import argparse
import random
from collections import defaultdict
from collections.abc import Callable
from itertools import product
from pathlib import Path

from msgspec import Struct

from bench.support.agents.gang_ways import GANG_WAYS, picking_by
from bench.support.agents.lagging import Asked, Crowd
from bench.support.report import Findings, at_most
from bench.support.store.conflict_detection import GPU_TYPE, GPUS, drawn_request, inventories
from components import AllocationAgent
from components.allocation_agent.state import AgentState
from core.component import Images
from core.nouns.agents import AgentSettings, AgentView
from core.nouns.ids import AgentName, ClaimId, RegionName, WorkloadId
from core.nouns.instant import MILLISECOND, Nanoseconds
from core.nouns.placement import Claim, Spread, View
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import JobSpec, Kind
from core.placing.pick.conflict_window import ConflictWindow
from core.placing.pick.nodes import Picker

NODES, QUICK_NODES = 10_240, 512
USED_SHARE = 0.84
AGENTS, QUICK_AGENTS = (2, 4, 16), (4,)
LAGS, QUICK_LAGS = (10, 100, 1_000), (10,)
WAYS = ("ties", "n0", "partitions")
N0 = 64
REQUESTS, QUICK_REQUESTS = 2_000, 80
MILLISECONDS_A_FACT = 0.25
"""Of a crowd's clock, about."""
ROUND_LAGS = 8
REQUESTS_A_LAG = 12
"""Of partitions, for each fact of the lag: some three rounds, as a request is about two facts."""
FULL = 1
WIDE_SHARE = 0.2
WIDE_TASKS = (12, 24)
WIDE_LAG = 10


class Result(Struct, frozen=True):
    """What one run came to."""

    claims: int
    conflicts: int
    gang_claims: int
    gang_conflicts: int
    wide_claims: int
    """Of gangs with as many tasks as the wide ones have."""
    wide_conflicts: int
    empty_nodes: int
    """At the end."""
    handed_back: int

    @property
    def conflict_share(self) -> float:
        """Of all claims."""
        return self.conflicts / max(1, self.claims)

    @property
    def gang_conflict_share(self) -> float:
        """Of the claims of gangs."""
        return self.gang_conflicts / max(1, self.gang_claims)

    @property
    def wide_conflict_share(self) -> float:
        """Of the claims of wide gangs."""
        return self.wide_conflicts / max(1, self.wide_claims)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the seeds, the part of the nodes and requests, and the numbers of agents."""
    parser.add_argument("--seeds", default="1", help="seeds by comma")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the nodes and of the requests")
    parser.add_argument("--agents", default="", help="numbers of agents by comma; 2,4,16")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play each way with each number of agents and each lag."""
    nodes, requests = (QUICK_NODES, QUICK_REQUESTS) if is_quick else (NODES, REQUESTS)
    agents: tuple[int, ...] = QUICK_AGENTS if is_quick else AGENTS
    lags: tuple[int, ...] = QUICK_LAGS if is_quick else LAGS
    seeds = [1]
    if chosen is not None:
        nodes, requests = round(nodes * chosen.scale), round(requests * chosen.scale)
        agents = tuple(map(int, chosen.agents.split(","))) if chosen.agents else agents
        seeds = [int(seed) for seed in chosen.seeds.split(",")]
    figures: dict[str, float] = defaultdict(float)
    worst = 0.0
    for seed in seeds:
        alone: dict[int, Result] = {}
        for count, lag, way in product(agents, lags, WAYS):
            many = requests if way != "partitions" or is_quick else max(requests, REQUESTS_A_LAG * lag)
            if many not in alone:
                alone[many] = played("ties", nodes, 1, 0, many, seed)
            result = played(way, nodes, count, lag, many, seed)
            name = f"{way}_{count}_{lag}"
            lost = 1 - result.empty_nodes / max(1, alone[many].empty_nodes)
            figures[f"conflict_share_{name}"] += result.conflict_share / len(seeds)
            figures[f"gang_conflict_share_{name}"] += result.gang_conflict_share / len(seeds)
            figures[f"empty_lost_{name}"] += lost / len(seeds)
            if way == "partitions":
                worst = max(worst, result.conflict_share)
        for way in ("own_pods", *GANG_WAYS):
            result = played(way, nodes, max(agents), WIDE_LAG, requests, seed, draw=wide_or_drawn)
            figures[f"wide_conflict_share_{way}"] += result.wide_conflict_share / len(seeds)
            figures[f"wide_back_share_{way}"] += result.handed_back / requests / len(seeds)
    figures["partition_conflict_share"] = worst
    limit = "claims of an agent whose round has ended, and gangs that no owned rack holds"
    return Findings(figures, [at_most("partition_conflict_share", worst, 0.01, limit)])


def wide_or_drawn(dice: random.Random) -> Asked:
    """Return a request of the load with wide gangs."""
    if dice.random() >= WIDE_SHARE:
        return drawn_request(dice)
    gpus = GPUS * MILLI
    need = Amount(gpus, GPUS * 4_000, GPUS << 34)
    return Asked((JobSpec("main", dice.randint(*WIDE_TASKS), need, GPU_TYPE),))


def played(
    way: str,
    nodes: int,
    agents: int,
    lag: int,
    requests: int,
    seed: int,
    *,
    draw: Callable[[random.Random], Asked] = drawn_request,
) -> Result:
    """Return what came of one run: so many requests, as many at once as there are agents."""
    dice = random.Random(seed)
    held, running = _held(nodes, dice)
    with picking_by(GANG_WAYS.get(way, Picker)):
        return _played(_crowd(way, nodes, agents, lag, held), nodes, requests, draw, dice, held, running)


def _played(
    crowd: Crowd,
    nodes: int,
    requests: int,
    draw: Callable[[random.Random], Asked],
    dice: random.Random,
    held: list[Claim],
    running: list[WorkloadId],
) -> Result:
    gpus = {claim.workload: _gpus(Asked(claim.jobs)) for claim in held}
    used = sum(gpus.values())
    target = round(USED_SHARE * nodes * GPUS)
    able = len(crowd.able)
    for _ in range(requests // able):
        asked = [draw(dice) for _ in range(able)]
        for name, one in zip(crowd.place(*asked), asked, strict=True):
            if crowd.capacity.holding(name, 1) is not None:
                running.append(name)
                gpus[name] = _gpus(one)
                used += gpus[name]
        while used > target:
            index = dice.randrange(len(running))
            running[index], running[-1] = running[-1], running[index]
            gone = running.pop()
            used -= gpus[gone]
            crowd.end(gone)
    gangs = [verdict for claim, verdict, _ in crowd.claims if claim.jobs[0].tasks > 1]
    wide = [verdict for claim, verdict, _ in crowd.claims if claim.jobs[0].tasks >= WIDE_TASKS[0]]
    free = crowd.capacity.gpu
    empty = sum(free.free[node] == free.total[node] for node in range(nodes))
    conflicts = sum(verdict == "conflict" for _, verdict, _ in crowd.claims)
    return Result(
        len(crowd.claims),
        conflicts,
        len(gangs),
        gangs.count("conflict"),
        len(wide),
        wide.count("conflict"),
        empty,
        crowd.handed_back,
    )


def _crowd(way: str, nodes: int, agents: int, lag: int, held: list[Claim]) -> Crowd:
    settings, make = AgentSettings(), _with_n0(N0 if way == "n0" else 1)
    is_apart = way not in ("ties", "n0")
    if is_apart and agents > FULL:
        span = max(500.0, agents * ROUND_LAGS * lag * MILLISECONDS_A_FACT)
        every = Nanoseconds(round(span * MILLISECOND))
        settings = AgentSettings(view=AgentView.PARSYNC, sync_every=every, full=FULL)
        make = AllocationAgent
    return Crowd(
        inventories(nodes), agents=agents, lag=lag, stripes=is_apart, make=make, settings=settings, held=held
    )


def _with_n0(best: int) -> Callable[[RegionName, AgentName], AllocationAgent]:
    """Return agents whose N0 stays."""

    class Fixed(ConflictWindow):
        def heard(self, *, is_conflict: bool) -> None:
            """Change nothing."""

    class WithN0(AllocationAgent):
        def initial(self, images: Images) -> AgentState:
            """Begin with the N0."""
            state = super().initial(images)
            state.window = Fixed()
            state.window.best = best
            return state

    return WithN0


def _held(nodes: int, dice: random.Random) -> tuple[list[Claim], list[WorkloadId]]:
    """Return claims of tasks on one node each that hold the share from which the run begins: best fit, in order of nodes."""
    free, claims, used, at = [GPUS] * nodes, list[Claim](), 0, 0
    while used < USED_SHARE * nodes * GPUS:
        asked = drawn_request(dice)
        job = asked.jobs[0]
        need = job.need.gpu_milli // MILLI
        if job.tasks > 1:
            continue
        while at < nodes and not free[at]:
            at += 1
        node = next(node for node in range(at, nodes) if free[node] >= need)
        free[node] -= need
        used += need
        name = WorkloadId(f"held-{len(claims)}")
        spread = (Spread((node,), (1,)),)
        claims.append(
            Claim(ClaimId(name), RegionName("east"), AgentName("before"), name, 1, 0, 3, Kind.TRAINING, asked.jobs, spread, View(0))
        )  # fmt: skip
    return claims, [claim.workload for claim in claims]


def _gpus(asked: Asked) -> int:
    return sum(job.tasks * job.need.gpu_milli for job in asked.jobs) // MILLI
