"""Plans that free whole nodes and racks of a large region, and what they are good for when room is short.

    plan      10,000 nodes of 8 GPUs, four fifths in use and scattered: how long a plan takes, what comes free, and how near that
              is to what could at best, if all work lay side by side
    crunch    2,500 nodes whose pool is full to its limit of 95 %; then the limit is raised by 1 %, and tasks of 8 GPUs wait: how
              many GPUs they get without moves, with moves, and more for each move. Once its work lies scattered at random, as
              others may have left it; and once it was placed by our rules, through many arrivals and ends

Seconds are of one core, whatever else the machine does.

source    spec/protean-parsync.md §5.1, E-P6 crunch: raise the limit by 1 %, what-if migration
"""

# rows: P30, E-P6

import random
import time
from pathlib import Path

from msgspec.structs import replace

from bench.support.agents.region import CPUS_MILLI, GPU_TYPE, GPUS, LOG, MEMORY, NODES_A_RACK, POOL
from bench.support.report import Findings, Yardstick, at_least, at_most
from core.defrag.plan import planned
from core.defrag.revalidation import Revalidation
from core.defrag.what_if import Mover, Sketch
from core.events.pools import PoolChanged
from core.events.region import NodesJoined
from core.fact import Fact
from core.images import RegionImage
from core.nouns.defragmentation import Freeing, Plan
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import AgentName, ClaimId, RegionName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.operation import WHOLE
from core.nouns.placement import Claim, Spread, View
from core.nouns.pool import PoolSettings
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import JobSpec, Kind

EAST = RegionName("east")
NODES, CRUNCH_NODES = 10_000, 2_500
USED_SHARE = 0.8
LIMIT, RAISED = 950, 960
"""Permille of the pool's GPUs."""
CHANGES_A_NODE = 4
"""Ends, each followed by arrivals, that scatter the work of the crunch."""
SIZES, WEIGHTS = (1, 2, 4, 8), (40, 15, 15, 30)
HOUR = 3_600


def run(_: Path, *, is_quick: bool) -> Findings:
    """One seed each, timed by the clock."""
    nodes, crunch_nodes = (200, 100) if is_quick else (NODES, CRUNCH_NODES)
    figures = {
        **_plans(nodes),
        "crunch_nodes": crunch_nodes,
        "crunch_room_gpus": crunch_nodes * GPUS * (RAISED - LIMIT) // 1000,
        **_crunch(crunch_nodes, is_scattered=True),
        **_crunch(crunch_nodes, is_scattered=False),
    }
    return Findings(
        figures,
        [
            at_most(
                "plan_cpu_seconds",
                figures["plan_cpu_seconds"],
                10,
                "searching a place for each piece of work",
            ),
            at_least("freed_share", figures["freed_share"], 0.95, "the search is greedy"),
        ],
        [Yardstick("gpus_freed_per_move", GPUS, "a move frees one node at best, unless it is a gang's")],
    )


def _plans(nodes: int) -> dict[str, float]:
    region = _Region(nodes, 1)
    region.scatter(round(nodes * GPUS * USED_SHARE))
    image = region.image()
    found: dict[str, float] = {"nodes": nodes}
    plans = {}
    for freeing, name in ((Freeing.NODES, "plan"), (Freeing.RACKS, "racks_plan")):
        begun = time.process_time()
        plans[freeing] = region.plan(image, freeing)
        found[f"{name}_cpu_seconds"] = time.process_time() - begun
    plan, racks = plans[Freeing.NODES], plans[Freeing.RACKS]
    most = plan.before.free_gpus // GPUS - plan.before.free_nodes
    found["nodes_freed"] = plan.after.free_nodes - plan.before.free_nodes
    found["freed_share"] = found["nodes_freed"] / most if most else 1.0
    found["moves"] = len(plan.moves)
    found["gpus_freed_per_move"] = plan.summary["gpus_freed_per_move"]
    found["racks_freed"] = racks.after.free_racks - racks.before.free_racks
    found["rack_moves"] = len(racks.moves)
    return found


def _crunch(nodes: int, *, is_scattered: bool) -> dict[str, float]:
    region = _Region(nodes, 2)
    if is_scattered:
        region.scatter(nodes * GPUS * LIMIT // 1000)
    else:
        region.limit(LIMIT)
        region.live(CHANGES_A_NODE * nodes)
    region.limit(RAISED)
    image = region.image()
    room = nodes * GPUS * (RAISED - LIMIT) // 1000
    plan = region.plan(image, Freeing.NODES, count=room // GPUS)
    standing = Revalidation(image, region.now)
    assert not any(map(standing.take, plan.freed))
    without, with_moves = _placed(Sketch(image)), _placed(standing.opened())
    moves = len(plan.moves)
    name = "scattered" if is_scattered else "lived"
    return {
        f"{name}_gpus_without_moves": without,
        f"{name}_gpus_with_moves": with_moves,
        f"{name}_moves": moves,
        f"{name}_gpus_per_move": (with_moves - without) / moves if moves else 0.0,
    }


def _placed(sketch: Sketch) -> int:
    """GPUs that tasks of a whole node get, one after the other until one finds no place."""
    placed = 0
    while True:
        mover = _mover(f"wait-{placed}", GPUS)
        spreads = sketch.find(mover)
        if spreads is None:
            return placed
        sketch.put(replace(mover, spreads=spreads), spreads)
        placed += GPUS


def _mover(name: str, gpus: int) -> Mover:
    job = JobSpec("main", 1, Amount(gpus * MILLI, gpus * 4_000, gpus * (16 << 30)), GPU_TYPE)
    claim = Claim(
        ClaimId(name), EAST, AgentName("a0"), WorkloadId(name), 1, 1, 3, Kind.TRAINING, (job,), (), View(0)
    )
    return Mover((claim.workload, 1), WHOLE, claim, (), gpus * MILLI, 0)


class _Region:
    """One pool in one zone, and work of one task each."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.nodes, self.dice = nodes, random.Random(seed)
        self._running: list[Mover] = []
        self._started = 0
        total = Amount(GPUS * MILLI, CPUS_MILLI, MEMORY)
        worker = WorkerName("w0")
        group = NodeGroup(0, nodes, total, GPU_TYPE, 0, NODES_A_RACK)
        image = RegionImage.empty()
        image.fold(
            Fact(LOG, 1, Instant(0), "bench", "bench", NodesJoined(worker, Inventory(worker, (group,))))
        )
        self._sketch = Sketch(image)

    @property
    def now(self) -> Instant:
        """After all of it."""
        return Instant(10 * HOUR * SECOND)

    def limit(self, permille: int) -> None:
        """From now on."""
        changed = PoolChanged(POOL, PoolSettings(limit=permille))
        self._sketch.image.fold(Fact(LOG, 2, Instant(0), "bench", "bench", changed))
        self._sketch.placer.touch_pool(POOL)

    def scatter(self, gpus: int) -> None:
        """So many GPUs are in use, wherever there was room."""
        free = [GPUS] * self.nodes
        while gpus > 0:
            mover = self._next()
            need = mover.gpu_milli // MILLI
            node = self.dice.randrange(self.nodes)
            if free[node] >= need:
                free[node] -= need
                gpus -= need
                self._start(mover, (Spread((node,), (1,)),))

    def live(self, changes: int) -> None:
        """As full as it may be by its rules, whatever ends, and whatever comes instead."""
        self._fill()
        for _ in range(changes):
            at = self.dice.randrange(len(self._running))
            self._running[at], self._running[-1] = self._running[-1], self._running[at]
            gone = self._running.pop()
            self._sketch.take_out(gone, gone.spreads)
            self._fill()

    def _fill(self) -> None:
        """Until one finds no place: who comes waits for nobody."""
        while True:
            mover = self._next()
            spreads = self._sketch.find(mover)
            if spreads is None:
                return
            self._start(mover, spreads)

    def _next(self) -> Mover:
        self._started += 1
        return _mover(f"w-{self._started}", self.dice.choices(SIZES, WEIGHTS)[0])

    def _start(self, mover: Mover, spreads: tuple[Spread, ...]) -> None:
        there = replace(mover, spreads=spreads)
        self._running.append(there)
        self._sketch.put(there, spreads)

    def image(self) -> RegionImage:
        """What it has come to; each piece of work has run for some hours, and saved within the last."""
        sections = {**RegionImage.empty().sections, **self._sketch.image.sections}
        image = RegionImage.decode(RegionImage(sections).encode())
        for _, _, held in image.capacity.live():
            held.started_at = self.dice.randrange(1, 8 * HOUR) * SECOND
            held.saved_at = self.dice.randrange(9 * HOUR, 10 * HOUR) * SECOND
        return image

    def plan(self, image: RegionImage, freeing: Freeing, count: int = 0) -> Plan:
        """What to move."""
        return planned(image, EAST, 1, self.now, freeing, count=count)
