"""Designs that are compared: each is chosen by a scenario, and played by the same queue, stores, brokers and agents."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.events.queue import AttemptClosed, WorkloadSubmitted
from core.fact import Fact
from core.nouns.ids import GLOBAL_LOG, RegionName, TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, EndCause, JobSpec, Phase, WorkloadSpec
from runtime.fleet_file import RegionSpec
from runtime.host import Host
from runtime.virtual_loop import VirtualLoop
from runtime.wiring import ROLES, units_of
from scenarios.play.run import Run
from scenarios.play.simulated import simulated_run
from scenarios.scenario import ScenarioError, ScenarioSpec, parse_scenario, scenario_written
from scenarios.schema.fleet import FleetSpec, regions_of
from scenarios.schema.parts import parts_in
from scenarios.variant import Binder, Variant
from scenarios.variants.cluster_queues import ClusterQueues
from scenarios.variants.exhaustive import Exhaustive
from scenarios.variants.federated import Federated
from scenarios.variants.global_queue_over_clusters import GlobalQueueOverClusters
from scenarios.variants.on_demand_data import OnDemandData
from scenarios.variants.regional_queues import RegionalQueues
from scenarios.variants.regional_queues_over_clusters import RegionalQueuesOverClusters
from scenarios.worlds.simulated.world import START, SimulatedWorld

FLEET = FleetSpec(
    {
        "large": RegionSpec(nodes=8, gpu_type="H100", workers=2, cpu_nodes=3),
        "small": RegionSpec(nodes=4, gpu_type="H100"),
        "other": RegionSpec(nodes=2, gpu_type="A100"),
    }
)
TEXT = """
name: compared
survives: An hour of work.
fleet: {regions: 2, nodes: 8, workers: 2}
variant: VARIANT
workload:
  - steady: {workloads: 40, hours: 0.5, minutes_median: 4, minutes_max: 20, gpus_max: 16}
faults:
  - node_crash: {times: 2}
calm: {minutes: 120}
"""
SPLIT = (ClusterQueues, RegionalQueuesOverClusters, GlobalQueueOverClusters)


def asking(gpus: int, gpu_type: str = "H100", priority: int = 3) -> WorkloadSpec:
    """Work of so many tasks of one GPU."""
    job = JobSpec("main", gpus, Amount(1000), gpu_type, Emulation(Nanoseconds(1)))
    return WorkloadSpec("asking", (job,), priority=priority)


class Submitting:
    """Whose work is bound one after the other."""

    def __init__(self, binder: Binder) -> None:
        self.binder = binder
        self.count = 0

    def submit(self, spec: WorkloadSpec) -> tuple[RegionName, ...]:
        self.count += 1
        bound = self.binder.bound(spec)
        event = WorkloadSubmitted(WorkloadId(f"w-{self.count}"), self.count, bound, "user")
        self._take(event)
        return bound.regions

    def end(self, number: int, phase: Phase = Phase.COMPLETED) -> None:
        self._take(
            AttemptClosed(WorkloadId(f"w-{number}"), 1, EndCause.COMPLETED, phase, RegionName("large"), 1)
        )

    def _take(self, event: WorkloadSubmitted | AttemptClosed) -> None:
        self.binder.take(Fact(GLOBAL_LOG, 1, Instant(0), "", "", event))


def test_every_design_is_there() -> None:
    """M39: ours, a federation, cluster and regional queues, allocation by clusters, and data on demand, each by its name."""
    names = {
        "exhaustive",
        "federated",
        "regional_queues",
        "cluster_queues",
        "regional_queues_over_clusters",
        "global_queue_over_clusters",
        "on_demand_data",
    }
    assert names == set(parts_in("variants", Variant))
    for name in names:
        spec = parse_scenario(TEXT.replace("VARIANT", name), "compared.yaml")
        assert name == spec.variant.name
        assert spec == parse_scenario(scenario_written(spec), "again.yaml")
    with pytest.raises(ScenarioError, match="did you mean `federated`"):
        parse_scenario(TEXT.replace("VARIANT", "federatd"), "compared.yaml")


def test_federation_binds_to_the_least_asked_of() -> None:
    """By share of what a region has of the type: 64 GPUs take twice what 32 do. What has ended is asked for no more."""
    users = Submitting(Federated().binder(FLEET))
    assert [("large",), ("large",), ("small",), ("large",)] == [users.submit(asking(16)) for _ in range(4)]
    assert ("other",) == users.submit(asking(16, "A100"))
    assert ("large",) == users.submit(asking(33)), "a region that could never hold it is not asked"
    users.end(1, Phase.PENDING)
    assert ("small",) == users.submit(asking(1))
    for number in (1, 2, 4, 6):
        users.end(number)
    assert ("large",) == users.submit(asking(1))


def test_regional_queues_count_the_demand_ahead() -> None:
    """The published heuristic counts all demand; this one first the demand of no lower a level."""
    by_all, by_level = Submitting(Federated().binder(FLEET)), Submitting(RegionalQueues().binder(FLEET))
    for users in (by_all, by_level):
        assert ("large",) == users.submit(asking(40, priority=1)), "it fits nowhere else"
    assert ("small",) == by_all.submit(asking(8, priority=5))
    assert ("large",) == by_level.submit(asking(8, priority=5))
    assert ("small",) == by_level.submit(asking(8, priority=1))


@pytest.mark.parametrize("kind", SPLIT)
def test_clusters_are_regions(kind: type[ClusterQueues]) -> None:
    """As many nodes, each region's dealt out to clusters that are alike; work is bound to one, to a region's, or to none."""
    variant = kind(cluster_nodes=4)
    served = regions_of(variant.served(FLEET))
    assert {"large-c0": 4, "large-c1": 4, "small-c0": 4, "other-c0": 2} == {
        name: region.nodes for name, region in served.items()
    }
    assert [2, 1] == [served[name].cpu_nodes for name in ("large-c0", "large-c1")]
    bound = Submitting(variant.binder(FLEET)).submit(asking(8))
    wanted = {
        ClusterQueues: ("large-c0",),
        RegionalQueuesOverClusters: ("large-c0", "large-c1"),
        GlobalQueueOverClusters: (),
    }
    assert wanted[kind] == bound
    assert () == Submitting(variant.binder(FLEET)).submit(asking(33)), "it fits no cluster, and is told so"


def test_data_on_demand_keeps_work_at_its_home() -> None:
    """A tenant's, always the same one that has the hardware."""
    users = Submitting(OnDemandData().binder(FLEET))
    homes = {
        tenant: {users.submit(replace(asking(1), tenant=tenant)) for _ in range(3)}
        for tenant in "abcdefghijkl"
    }
    assert {1} == {len(found) for found in homes.values()}
    assert {("large",), ("small",)} == {home for found in homes.values() for home in found}


def test_larger_regions_are_home_to_more_tenants() -> None:
    """Each to as large a part as it has of the GPUs. Whoever wants more than there is at home runs elsewhere, and is not refused for ever."""
    users = Submitting(OnDemandData().binder(FLEET))
    names = [TenantName(f"t{number}") for number in range(300)]
    homes = {name: users.submit(replace(asking(8), tenant=name)) for name in names}
    assert 0.6 < sum("large" in home for home in homes.values()) / len(names) < 0.74
    assert {("large",)} == {users.submit(replace(asking(40), tenant=name)) for name in names}
    assert {()} == {users.submit(replace(asking(65), tenant=name)) for name in names[:3]}


@pytest.mark.parametrize("name", ["federated", "cluster_queues: {cluster_nodes: 4}", "exhaustive"])
def test_design_is_played_by_the_same_parts(name: str) -> None:
    """M39: only pins and regions differ. Early-bound work is awarded where it was bound, whatever is free elsewhere."""
    if ":" in name:
        name = "{" + name + "}"
    spec = parse_scenario(TEXT.replace("VARIANT", name), "compared.yaml")
    run = played(spec)
    assert not run.witness.violations
    units = units_of(spec.plan)
    assert {type(host.component) for host in live(run)} == {
        type(build(spec.plan, unit)) for unit in units if (build := ROLES[unit.role]) is not None
    }
    rows = run.witness.queue.workloads.rows
    pins = {len(row.spec.regions) for row in rows.values()}
    assert pins == ({0} if isinstance(spec.variant, Exhaustive) else {1})
    assert all(row.region in (row.spec.regions or (row.region,)) for row in rows.values() if row.region)


def live(run: Run) -> list[Host[Any]]:
    """Hosts of a run's units."""
    assert isinstance(run.world, SimulatedWorld)
    return [one.open.host for one in run.world.all if one.open is not None and one.open.host is not None]


def played(spec: ScenarioSpec) -> Run:
    """To the end of its load."""
    loop = VirtualLoop(START)
    try:
        run = simulated_run(spec, 1, loop)
        loop.run_until_complete(_play(run))
        return run
    finally:
        loop.cancel_all()
        loop.close()


async def _play(run: Run) -> None:
    await run.begin()
    await run.strike()
