"""A small region in the simulated plane that loses power domains, with plans and, on the same losses, with nodes that stay where they are."""

from collections.abc import Mapping

import structlog
from msgspec import Struct

from core.events.region import AttemptEnded, ClaimGranted
from core.fact import Fact
from core.images import RegionImage
from core.nouns.ids import RegionName, region_log
from core.nouns.instant import SECOND
from core.pooling.moving import groups_by_node
from runtime.virtual_loop import VirtualLoop
from scenarios.accounting.pools import MOVES_NODES, Place, gpus_by_domain
from scenarios.accounting.witness import Witness
from scenarios.play.simulated import simulated_run
from scenarios.scenario import ScenarioSpec, parse_scenario
from scenarios.worlds.simulated.world import START

HOUR = 3_600
REGION = RegionName("r0")
GPUS = 8
"""Of a node."""
NODE_TYPE = "H100"
SETTLE = 300
"""Seconds from the start until pools are looked at: the first plan has moved its nodes by then."""
SCENARIO = """
name: pools
survives: losses of power domains
fleet: {{regions: 1, nodes: {nodes}, workers: {workers}, nodes_per_rack: 2, power_domains: {domains}, planner: true,
  pools: {{needs: {{training: {{H100: {training}}}, service: {{H100: {service}}}}}, at_once_percent: 100}}}}
workload:
  - steady: {{workloads: {workloads}, hours: {hours}, minutes_median: 20, minutes_max: 60, gpus_max: 8, fails_share: 0, cancels_share: 0}}
  - services: {{workloads: 4, tasks: {tasks}, gpus: 2, hours: {hours}, stop_seconds: 5, is_incremental: true}}
faults:
{faults}
calm: {{minutes: 1200}}
expectations: []
"""


class Setup(Struct, frozen=True):
    """A region, its needs and its losses."""

    nodes: int
    domains: int
    training: int
    """GPUs that the pool needs; of service the same."""
    service: int
    hours: float
    losses: tuple[tuple[int, float, float], ...]
    """Of a domain by its number: after so many hours, for so many hours."""

    @property
    def spec(self) -> ScenarioSpec:
        """Return the scenario. More training is asked for than fits, and services take nine tenths of what their pool has, nodes beyond the need too."""
        faults = "\n".join(
            f"  - domain_loss: {{domain: power-{domain}, after_seconds: {after * HOUR:g}, down_seconds: {down * HOUR:g}}}"
            for domain, after, down in self.losses
        )
        text = SCENARIO.format(
            nodes=self.nodes,
            workers=self.nodes // 2,
            domains=self.domains,
            training=self.training,
            service=self.service,
            workloads=round(self.hours * self.nodes * GPUS / 3),
            tasks=round(0.9 * self.service * self.domains / (self.domains - 1) / 8),
            hours=f"{self.hours:g}",
            faults=faults,
        )
        return parse_scenario(text, "pools")


TWICE = Setup(30, 3, 96, 48, 5.0, ((0, 1.0, 1.0), (1, 3.0, 1.0)))
"""Needs are nine tenths of the 20 nodes that are left without any domain."""
QUICK_TWICE = Setup(30, 3, 96, 48, 1.0, ((0, 0.3, 0.2), (1, 0.7, 0.2)))
FOR_GOOD = Setup(20, 5, 56, 28, 3.0, ((2, 1.0, 2.0),))
"""Needs are nearly nine tenths of the 12 nodes that are left without two of five domains."""
QUICK_FOR_GOOD = Setup(20, 5, 56, 28, 0.6, ((2, 0.3, 0.3),))


class Held(Struct, frozen=True):
    """Shares of the time from the first plan to the end of the load."""

    by_plans: float
    """In which a pool has what it needs; the mean of both pools."""
    by_split: float
    """The same of nodes that stay where they are, as many in each pool as the first plan gave it, next to each other."""
    used: float
    """GPU-hours that are held, of those of nodes that take work."""
    steps: dict[str, list[tuple[float, float]]]
    """By name, GPUs that the service pool has, from a time on: hours after the start of the load."""


def held(seed: int, *, is_quick: bool) -> Held:
    """Play a region that loses a domain for an hour, twice."""
    setup = QUICK_TWICE if is_quick else TWICE
    watch = _Watch(setup)
    _play(setup, seed, watch)
    return watch.held()


def recovery(seed: int, *, is_quick: bool) -> float:
    """Return the minutes from a loss for good until every need survives the loss of any further domain; infinite: it never did."""
    setup = QUICK_FOR_GOOD if is_quick else FOR_GOOD
    watch = _Watch(setup)
    _play(setup, seed, watch)
    return watch.recovered


def _play(setup: Setup, seed: int, watch: "_Watch") -> None:
    """Play to the end. Raises AssertionError if the run is not good."""
    loop = VirtualLoop(START)
    try:
        with structlog.testing.capture_logs():
            run = simulated_run(setup.spec, seed, loop)
            watch.witness = run.witness
            run.witness.watchers.append(watch.see)
            outcome = loop.run_until_complete(run.play())
    finally:
        loop.cancel_all()
        loop.close()
    assert outcome.is_good, outcome.first_problem()


class _Watch:
    """What a region's facts tell: seen before the image folds them, so that each span counts with what was so in it."""

    def __init__(self, setup: Setup) -> None:
        self.witness: Witness | None = None
        self.recovered = float("inf")
        self._setup = setup
        self._needs = {("training", NODE_TYPE): setup.training, ("service", NODE_TYPE): setup.service}
        self._begun = START + (20 + SETTLE) * SECOND
        self._end = START + round((20 + setup.hours * HOUR) * SECOND)
        self._lost_at = START + round((20 + setup.losses[0][1] * HOUR) * SECOND)
        self._last = self._begun
        self._split: dict[int, str] = {}
        self._steps: dict[str, list[tuple[float, float]]] = {}
        self._met = {"plans": 0.0, "split": 0.0, "used": 0.0}

    def see(self, fact: Fact) -> None:
        """Take a fact of any log."""
        if fact.log != region_log(REGION) or not isinstance(
            fact.event, (*MOVES_NODES, ClaimGranted, AttemptEnded)
        ):
            return
        assert self.witness is not None
        image = self.witness.region(REGION)
        if self._begun <= self._last < fact.at and self._last < self._end:
            self._count(image, min(fact.at, self._end) - self._last)
        self._last = max(self._begun, min(fact.at, self._end))

    def held(self) -> Held:
        """Return the shares. What came after the newest fact is left out: the load ends with facts."""
        span = max(1, self._last - self._begun)
        met = self._met
        return Held(met["plans"] / span, met["split"] / span, met["used"] / span, self._steps)

    def _count(self, image: RegionImage, span: int) -> None:
        if not self._split:
            self._split = _split(image)
        has, fixed = gpus_by_domain(image), gpus_by_domain(image, self._split)
        hours = (self._last - START) / SECOND / HOUR - 20 / HOUR
        for name, found in (("plans", has), ("split", fixed)):
            served = float(sum(found.get(("service", NODE_TYPE), {}).values()))
            steps = self._steps.setdefault(name, [])
            if not steps or steps[-1][1] != served:
                steps.append((hours, served))
            met = sum(
                sum(found[place].values()) >= need for place, need in self._needs.items() if place in found
            )
            self._met[name] += span * met / len(self._needs)
        capacity = image.capacity
        open_milli = sum(
            capacity.gpu.total[node] for node in range(self._setup.nodes) if not capacity.is_lost[node]
        )
        self._met["used"] += span * sum(capacity.gpu.held) / max(1, open_milli)
        is_after = self._last > self._lost_at and any(capacity.is_lost)
        if is_after and self.recovered == float("inf") and _survives(has, self._needs):
            self.recovered = (self._last - self._lost_at) / SECOND / 60


def _survives(has: Mapping[Place, Mapping[str, int]], needs: Mapping[Place, int]) -> bool:
    """Return whether each pool has what it needs without any one domain."""
    return all(
        sum(has.get(place, {}).values()) - max(has.get(place, {}).values(), default=0) >= need
        for place, need in needs.items()
    )


def _split(image: RegionImage) -> dict[int, str]:
    """Return a pool for each node: as many in `service` as there are now, from one domain after the other, and all others in `training`."""
    groups = groups_by_node(image.capacity)
    nodes = [(group.power_domain, node, group.pool) for node, group in enumerate(groups) if group is not None]
    services = sum(pool == "service" for _, _, pool in nodes)
    ordered = [node for _, node, _ in sorted(nodes)]
    return {node: "service" if place < services else "training" for place, node in enumerate(ordered)}
