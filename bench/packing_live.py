"""What packing loses where more is real than in the published protocol: pods end, gangs span nodes, and there are three regions.

Each step is taken alone, and then all together, beside the same lists offered as published (`single`):

departures   from 100 % arrived on pods end too: lifetimes are exponential, by pods that arrive, and their mean is such that as much
             is wanted on; the figure is what is placed, over all pods at which what is wanted rounds to 100 %, once as many
             have come again as it takes to want everything
gangs        of pods that want whole devices one in ten comes as a gang of 2, 4 or 8, which starts whole, on one type, or not at all;
             of the others so many stay away that as many tasks of each shape come as before
regions      nodes are split over three regions by their number; each region is asked for a bid, and the best one gets the pod

A pod that found no place is wanted until it would have ended. Without a trace it is played on a small cluster that is drawn.

source    spec/traces.md §2, "Use in our system", 3
"""

import argparse
import random
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from heapq import heappop, heappush
from itertools import chain
from pathlib import Path

from msgspec import Struct

from bench.support.packing.openb import (
    FOLDER,
    NODES_FILE,
    Counted,
    ListedNode,
    Pod,
    job_of,
    nodes_in,
    offered,
    pods_in,
)
from bench.support.packing.prices import Learner
from bench.support.packing.region import PackingRegion
from bench.support.packing.run import AT, RULES, Order, rules_of, seeds_of
from bench.support.packing.small import small_lists
from bench.support.report import Findings
from core.nouns.ids import WorkloadId
from core.nouns.quantities import MILLI
from core.nouns.workload import JobSpec
from core.pricing.shapes import mix_of

LIST = "openb_pod_list_default.csv.gz"
SEEDS, QUICK_SEEDS = "42,43", "42"
REGIONS = 3
GANG_SHARE, GANG_SIZES = 0.1, (2, 4, 8)
ALONE_SHARE = (1 - GANG_SHARE * sum(GANG_SIZES) / len(GANG_SIZES)) / (1 - GANG_SHARE)
"""Of pods that are no gangs though they could be, those that come."""
TURNS = 2
"""How often as many pods come, while others end, as it took to want everything; the first time is for settling in."""


class Step(Struct, frozen=True):
    """What is more real than published."""

    name: str
    departs: bool = False
    has_gangs: bool = False
    regions: int = 1


SINGLE = Step("single")
STEPS = (
    SINGLE,
    Step("departures", departs=True),
    Step("gangs", has_gangs=True),
    Step("regions", regions=REGIONS),
    Step("all", departs=True, has_gangs=True, regions=REGIONS),
)


class Arrival(Struct, frozen=True):
    """A pod, or a gang of like ones."""

    pod: Pod
    tasks: int = 1

    @property
    def gpu_milli(self) -> int:
        """All of it."""
        return self.pod.need.gpu_milli * self.tasks


def options(parser: argparse.ArgumentParser) -> None:
    """Where the trace is, and how much of it all."""
    parser.add_argument(
        "--data", type=Path, default=FOLDER, help="a folder with the trace (default: %(default)s)"
    )
    parser.add_argument("--rules", nargs="+", choices=[*RULES], default=[*RULES], help="default: all of them")
    parser.add_argument("--seeds", help=f"as 42..51 or 42,44 (default: {SEEDS})")
    parser.add_argument("--processes", type=int, default=2, help="at a time (default: %(default)s)")


def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Every step by every rule set."""
    if chosen is None:
        parser = argparse.ArgumentParser()
        options(parser)
        chosen = parser.parse_args([])
    nodes, pods = chosen.data / NODES_FILE, chosen.data / LIST
    if is_quick or not pods.is_file():
        nodes, (pods,) = small_lists(directory)
    wanted = [
        (nodes, pods, Order(rules, "", seed), step)
        for rules in chosen.rules
        for step in STEPS
        for seed in seeds_of(chosen.seeds or (QUICK_SEEDS if is_quick else SEEDS))
    ]
    if is_quick or chosen.processes == 1:
        found = [lived(*one) for one in wanted]
    else:
        with ProcessPoolExecutor(chosen.processes) as pool:
            found = list(pool.map(lived, *zip(*wanted, strict=True)))
    figures: dict[str, float] = {}
    for rules in chosen.rules:
        by_step: dict[str, list[float]] = {}
        for (_, _, order, step), allocated in zip(wanted, found, strict=True):
            if order.rules == rules:
                by_step.setdefault(step.name, []).append(allocated)
        means = {name: statistics.fmean(values) for name, values in by_step.items()}
        figures |= {f"{rules}_{name}": mean for name, mean in means.items()}
        figures |= {
            f"{rules}_{name}_loss": means[SINGLE.name] - mean
            for name, mean in means.items()
            if name != SINGLE.name
        }
    return Findings(figures)


def lived(nodes: Path, pods: Path, order: Order, step: Step) -> float:
    """Percent of all GPUs that are held when what is wanted comes to all of them, as a mean."""
    return Life(nodes_in(nodes), pods_in(pods), order, step).lived()


class Life:
    """One run."""

    def __init__(self, nodes: Sequence[ListedNode], pods: Sequence[Pod], order: Order, step: Step) -> None:
        self._dice = random.Random(f"{order.seed}|lives")
        self._step = step
        split = [nodes[number :: step.regions] for number in range(step.regions)]
        self.regions = [
            PackingRegion(f"region-{number}", mine, rules_of(order)) for number, mine in enumerate(split)
        ]
        self._learner = Learner(self.regions) if order.rules == "default" else None
        if order.rules == "fgd":
            for region in self.regions:
                region.set_mix(mix_of(Counted(pods).counts))
        self.gpu_milli = sum(region.gpu_milli for region in self.regions)
        self._stream = self._arrivals(pods, order.seed)
        self._ends: list[tuple[float, int, Arrival, PackingRegion | None]] = []
        """When, which workload, and where it runs, if it does."""
        self.wanted = self.held = 0
        self._came = 0

    def lived(self) -> float:
        """The figure."""
        cell: list[float] = []
        while self._percent() <= AT:
            self._arrive(next(self._stream))
            if self._percent() == AT:
                cell.append(self._allocated())
        if not self._step.departs:
            return statistics.fmean(cell or [self._allocated()])
        # Lifetimes have no memory: it is all the same whether they are drawn at the beginning or now.
        span = self._came
        alive, self._ends = self._ends, []
        for _, number, arrival, region in alive:
            heappush(self._ends, (self._came + self._dice.expovariate(1 / span), number, arrival, region))
        cell = []
        for _ in range(TURNS * span):
            while self._ends and self._ends[0][0] <= self._came:
                self._end()
            self._arrive(next(self._stream), self._dice.expovariate(1 / span))
            if self._came > 2 * span and self._percent() == AT:
                cell.append(self._allocated())
        return statistics.fmean(cell or [self._allocated()])

    def _arrivals(self, pods: Sequence[Pod], seed: int) -> Iterator[Arrival]:
        """As published, and after that others for ever."""
        again = iter(lambda: self._dice.choice(pods), None)
        for pod in chain(offered(pods, self.gpu_milli, seed), again):
            is_whole = pod.need.gpu_milli > 0 and pod.need.gpu_milli % MILLI == 0
            if not (self._step.has_gangs and is_whole):
                yield Arrival(pod)
            elif self._dice.random() < GANG_SHARE:
                yield Arrival(pod, self._dice.choice(GANG_SIZES))
            elif self._dice.random() < ALONE_SHARE:
                yield Arrival(pod)

    def _arrive(self, arrival: Arrival, lifetime: float = 0.0) -> None:
        self._came += 1
        workload, jobs = WorkloadId(f"p-{self._came}"), (job_of(arrival.pod, arrival.tasks),)
        if self._learner is not None:
            self._learner.submitted(workload, jobs)
        region = self._placed(workload, jobs)
        self.wanted += arrival.gpu_milli
        self.held += arrival.gpu_milli * (region is not None)
        heappush(self._ends, (self._came + lifetime, self._came, arrival, region))

    def _placed(self, workload: WorkloadId, jobs: tuple[JobSpec, ...]) -> PackingRegion | None:
        """The region that took it, if any did: with several, the one of the best bid."""
        if len(self.regions) == 1:
            (region,) = self.regions
            return region if region.place(workload, jobs) else None
        bids = [
            (bid.score, region.region, bid, region)
            for region in self.regions
            if (bid := region.bid_for(workload, jobs))
        ]
        if not bids:
            return None
        _, _, bid, best = min(bids, key=lambda one: one[:2])
        for *_, region in bids:
            if region is not best:
                region.has_lost(workload)
        return best if best.place(workload, jobs, bid) else None

    def _end(self) -> None:
        _, number, arrival, region = heappop(self._ends)
        self.wanted -= arrival.gpu_milli
        if region is not None:
            self.held -= arrival.gpu_milli
            region.end(WorkloadId(f"p-{number}"))

    def _percent(self) -> int:
        return round(100 * self.wanted / self.gpu_milli)

    def _allocated(self) -> float:
        return 100 * self.held / self.gpu_milli
