"""The swarm: a thousand scenarios, each drawn whole from its seed: a fleet, a load, and a mix of faults.

Each lasts about ten virtual minutes. Safety is checked at every fact; then misfortune ends, and progress is demanded
within half an hour. One seed in ten is run twice, in processes whose PYTHONHASHSEED differs, and must give one digest; one
in five decides everything twice. A seed that fails is a command that repeats it.
"""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.nouns.agents import AgentView, Placing
from core.nouns.pool import SHARED_POOL
from core.nouns.tenant import LEVEL_MAX, LEVEL_MIN, UNLIMITED
from runtime.fleet_file import RegionSpec
from runtime.wiring import Unit, bus_name_of, units_of
from scenarios.fault import Fault, LinkFault, UnitFault
from scenarios.faults.agents_set import AgentsSet
from scenarios.faults.crash import Crash
from scenarios.faults.dataset_set import DatasetSet
from scenarios.faults.move_storm import MoveStorm
from scenarios.faults.partition import Partition
from scenarios.faults.quota_set import QuotaSet
from scenarios.faults.region_abandoned import RegionAbandoned
from scenarios.faults.round_crash import RoundCrash
from scenarios.faults.submission_storm import SubmissionStorm
from scenarios.scenario import CalmSpec, ScenarioSpec, all_checks
from scenarios.schema.agents import AgentsSpec
from scenarios.schema.fleet import FleetSpec, SharedSpec, plan_of, regions_of
from scenarios.schema.parts import parts_in
from scenarios.schema.tenants import EntitlementSpec, TenantSpec
from scenarios.swarm.data import OF_COPIES, has_copies, with_copies
from scenarios.swarm.dispatch import OF_DISPATCH, with_dispatch
from scenarios.swarm.functions import has_functions, with_functions
from scenarios.swarm.harvest import OF_HARVEST, has_harvest, with_harvest
from scenarios.swarm.pipelines import has_pipelines, with_pipelines
from scenarios.swarm.pools import OF_POOLS, has_pools, with_pools
from scenarios.workload import Workload, gpus_of
from scenarios.workloads.bursts import Bursts
from scenarios.workloads.shared import Shared
from scenarios.workloads.steady import Steady

COMPRESSION = 10.0
"""Spans of the published distributions are divided by it: a checkpoint every minute or so, and stops of seconds."""
HOURS = 10 / 60 * COMPRESSION
"""Before compression: ten minutes."""
CALM_MINUTES = 30.0
"""What runs, runs for three minutes at most; the longest deadline of the plane is three minutes, and several may follow
each other."""
FAULTS_MAX = 6
TWICE_EVERY = 10
"""Seeds of which one is run twice, under another PYTHONHASHSEED."""
DECIDES_TWICE_EVERY = 5
LATE = ("message_delay", "message_loss", "message_repeat", "message_replay", "message_reorder")
LATE_SHARE = 0.5
"""Of the scenarios, those that are given one of these whatever else they have: most of what goes wrong goes wrong beside it."""
ONE_WAY_SHARE = 1 / 3
"""Of the misfortunes of links, those that strike one direction alone."""
LINK_SHARE = 0.5
"""Of them, those of one process or of one role; the others strike everybody, or whom they draw themselves."""
TENANTS_EVERY, TENANTS_AT = 5, 3
"""Seeds of which one has tenants, and which."""
TENANTS_MAX = 4
DATA_EVERY, DATA_AT = 10, 7
"""Seeds of which one has work that reads data, and which."""
DATA = ("clicks", "users")
LOST_EVERY, LOST_AT = 10, 5
"""Seeds of which in one a region is given up, and which."""
SHARED_EVERY, SHARED_AT = 10, 9
"""Seeds of which in one the fleet has a shared pool, and which."""
ROUND_CRASH_SHARE = 0.5
"""Of these, those in which the queue dies at a boundary."""
SHARED_TYPES = ("K80", "P100", "V100")
POLICIES = (
    "max_min",
    "max_min",
    "finish_time",
    "fifo",
    "hierarchical_fair",
    "max_throughput",
    "water_filling",
)
"""By which the pool is shared, where there is a planner; the first is what a plane begins with."""
PAIRING = ("max_min", "max_min", "water_filling", "finish_time", "gandiva")
"""By which it is where two jobs may share a GPU."""
VIEWED_EVERY, VIEWED_AT = 7, 6
"""Seeds of which in one most agents take in rows alone, and which; operators may change that meanwhile."""
VIEWS = (AgentView.PARSYNC, AgentView.PARSYNC, AgentView.STATESYNC)
VIEW_SET_SHARE = 0.5
"""Of these, those in which operators change it."""
ROUND_SECONDS = (10.0, 20.0, 30.0, 60.0)
"""Rounds are as short as all other spans here."""
OF_SOME = (QuotaSet, DatasetSet, RegionAbandoned, MoveStorm, RoundCrash, AgentsSet)
"""What needs a load or fleet of its own, or changes what becomes of all others: drawn for some seeds, by dice of their own."""
TIGHT_SHARE = 0.7
"""Of the scenarios with tenants, those whose quotas are smaller than what is asked for."""
SHARES = (0.02, 0.3)
"""Of messages that are struck, where a fault has a share."""


class Mix(Struct, frozen=True):
    """What some seeds were made of."""

    nodes: int
    workloads: int
    faults: dict[str, int]
    """In how many scenarios each is."""


def draw_scenario(seed: int) -> ScenarioSpec:
    """The scenario of a seed."""
    spec = _draw_plain(seed)
    if seed % VIEWED_EVERY == VIEWED_AT:
        spec = _with_views(spec, random.Random(f"swarm/{seed}/views"))
    dice = random.Random(f"swarm/{seed}/moved data")
    spec = with_copies(spec, dice) if has_copies(spec, dice) else spec
    dice = random.Random(f"swarm/{seed}/pipelines")
    spec = with_pipelines(spec, dice) if has_pipelines(dice) else spec
    dice = random.Random(f"swarm/{seed}/functions")
    spec = with_functions(spec, dice) if has_functions(dice) else spec
    dice = random.Random(f"swarm/{seed}/pools")
    spec = with_pools(spec, dice) if has_pools(spec, dice) else spec
    dice = random.Random(f"swarm/{seed}/harvest")
    spec = with_harvest(spec, dice) if has_harvest(spec, dice) else spec
    return with_dispatch(spec, random.Random(f"swarm/{seed}/dispatch"))


def _draw_plain(seed: int) -> ScenarioSpec:
    """The same before it is drawn how agents see their regions, and whether data moves."""
    dice = random.Random(f"swarm/{seed}")
    fleet = _draw_fleet(dice)
    units = units_of(plan_of(fleet, "swarm"))
    kinds = {
        name: kind
        for name, kind in parts_in("faults", Fault).items()
        if kind not in (*OF_SOME, *OF_COPIES, *OF_POOLS, *OF_DISPATCH, *OF_HARVEST)
    }
    names = dice.sample(sorted(kinds), dice.randint(1, FAULTS_MAX))
    late = dice.choice(LATE)
    if dice.random() < LATE_SHARE and late not in names:
        names.append(late)
    faults = tuple(_draw_fault(kinds[name], units, dice) for name in names)
    spec = ScenarioSpec(
        name=f"swarm-{seed}",
        survives=f"Ten minutes of {', '.join(sorted(names))}. Nothing is lost, nothing runs twice, everything ends.",
        fleet=fleet,
        workload=(_draw_workload(fleet, dice),),
        faults=faults,
        checks=all_checks(),
        calm=CalmSpec(CALM_MINUTES),
    )
    if seed % TENANTS_EVERY == TENANTS_AT:
        return _with_tenants(spec, random.Random(f"swarm/{seed}/tenants"))
    if seed % DATA_EVERY == DATA_AT:
        return _with_data(spec, random.Random(f"swarm/{seed}/data"))
    if seed % LOST_EVERY == LOST_AT:
        return _with_a_lost_region(spec, random.Random(f"swarm/{seed}/lost"))
    if seed % SHARED_EVERY == SHARED_AT:
        return _with_a_shared_pool(spec, random.Random(f"swarm/{seed}/shared"))
    return spec


def mix_of(seeds: Iterable[int]) -> Mix:
    """What these seeds are made of, all together."""
    nodes = workloads = 0
    faults: Counter[str] = Counter()
    for seed in seeds:
        spec = draw_scenario(seed)
        nodes += sum(
            group.count for plan in spec.plan.regions for one in plan.inventories for group in one.groups
        )
        workloads += sum(workload.amount for workload in spec.workload)
        faults.update(fault.name for fault in spec.faults)
    return Mix(nodes, workloads, dict(sorted(faults.items())))


def _draw_fleet(dice: random.Random) -> FleetSpec:
    """One to three regions of a few nodes; now and then of two sorts of hardware."""
    regions: dict[str, RegionSpec] = {}
    for number in range(dice.choice((1, 1, 2, 2, 3))):
        nodes = dice.randint(1, 6)
        regions[f"r{number}"] = RegionSpec(
            nodes=nodes,
            gpu_type=dice.choice(("H100", "H100", "H100", "A100")),
            gpus_per_node=dice.choice((4, 8, 8)),
            workers=dice.randint(1, min(4, nodes)),
            agents=dice.randint(1, 3),
            nodes_per_rack=dice.choice((1, 2, 16)),
        )
    return FleetSpec(regions)


def _draw_workload(fleet: FleetSpec, dice: random.Random) -> Workload:
    """As much as the fleet can do within half an hour, were it to do one thing after the other."""
    nodes = sum(region.nodes for region in regions_of(fleet).values())
    given: dict[str, Any] = {
        "workloads": dice.randint(4, 8 + 3 * nodes),
        "hours": HOURS,
        "minutes_median": round(dice.uniform(0.5, 5.0), 2),
        "minutes_max": 30.0,
        "fails_share": dice.choice((0.0, 0.05, 0.3)),
        "cancels_share": dice.choice((0.0, 0.1, 0.3)),
        "holds_share": dice.choice((0.0, 0.1, 0.3)),
        "requeues_share": dice.choice((0.0, 0.1, 0.2)),
        "unsaved_share": dice.choice((0.0, 0.2, 1.0)),
        "other_kinds_share": dice.choice((0.0, 0.3)),
        "limited_share": dice.choice((0.0, 0.0, 0.3)),
        "pinned_share": dice.choice((0.0, 0.2)),
        "two_jobs_share": dice.choice((0.0, 0.3)),
        # Most run for less than a minute, compressed: whoever comes later finds that it has ended.
        "change_minutes": dice.choice((2.0, 2.0, 10.0, 120.0)),
        "compression": COMPRESSION,
    }
    return dice.choice((Steady, Steady, Bursts))(**given)


def _with_tenants(spec: ScenarioSpec, dice: random.Random) -> ScenarioSpec:
    """The same as work of a few tenants, whose quotas are tight and set otherwise meanwhile, or wide and kept from others.

    Whatever is submitted could start: interactive work is never over quota, and needs one that holds it.
    """
    regions = regions_of(spec.fleet).values()
    there: dict[str, int] = {}
    largest: dict[str, int] = {}
    for region in regions:
        there[region.gpu_type] = there.get(region.gpu_type, 0) + gpus_of(region)
        largest[region.gpu_type] = max(largest.get(region.gpu_type, 0), gpus_of(region))
    is_tight = dice.random() < TIGHT_SHARE
    tenants = {
        f"tenant-{number}": TenantSpec(
            level=dice.randint(LEVEL_MIN, LEVEL_MAX),
            run_min_seconds=dice.choice((0.0, 0.0, 20.0)),
            entitled={
                kind: EntitlementSpec(dice.randint(0, gpus))
                if is_tight
                else EntitlementSpec(largest[kind], dice.choice((UNLIMITED, 0)), dice.random() < 0.5)
                for kind, gpus in there.items()
            },
        )
        for number in range(dice.randint(2, TENANTS_MAX))
    }
    whose = {name: float(dice.randint(1, 4)) for name in tenants}
    (load,) = spec.workload
    load = replace(load, tenants=whose, other_kinds_share=0.0 if is_tight else load.other_kinds_share)
    faults = (*spec.faults, QuotaSet(times=dice.randint(1, 4))) if is_tight else spec.faults
    return replace(spec, workload=(load,), faults=faults, tenants=tenants)


def _with_data(spec: ScenarioSpec, dice: random.Random) -> ScenarioSpec:
    """The same as work that reads data, which comes and goes and is everywhere in the end."""
    (load,) = spec.workload
    faults = (DatasetSet(dataset=name, times=dice.randint(1, 4)) for name in DATA)
    return replace(spec, workload=(replace(load, data=DATA),), faults=(*spec.faults, *faults))


def _with_a_lost_region(spec: ScenarioSpec, dice: random.Random) -> ScenarioSpec:
    """The same with a region that is cut off, given up and taken back, and work that is moved from one to another; the load may have
    said beforehand that it moves by itself.
    """
    (load,) = spec.workload
    load = replace(load, move_after_seconds=dice.choice((0.0, 10.0, 40.0)))
    lost = RegionAbandoned(times=dice.randint(1, 2))
    moves = MoveStorm(share=round(dice.uniform(0.1, 0.6), 2), times=dice.randint(1, 4))
    return replace(spec, workload=(load,), faults=(*spec.faults, lost, moves))


PAIRS_SHARE = 0.5
"""Of fleets with a shared pool and a planner, those in which two jobs may share a GPU."""


def _with_views(spec: ScenarioSpec, dice: random.Random) -> ScenarioSpec:
    """The same with more agents, of which most take in rows alone, by any strategy."""
    regions = {
        name: replace(region, agents=dice.randint(3, 6)) for name, region in regions_of(spec.fleet).items()
    }
    agents = AgentsSpec(
        view=dice.choice(VIEWS),
        placing=dice.choice(list(Placing)),
        partitions=dice.choice((2, 8, 64)),
        sync_seconds=dice.choice((0.5, 4.0, 20.0)),
        full=dice.choice((1, 2)),
    )
    fleet = replace(spec.fleet, regions=regions, agent_settings=agents)
    faults = spec.faults
    if dice.random() < VIEW_SET_SHARE:
        faults = (*faults, AgentsSet(times=dice.randint(1, 3)))
    return replace(spec, fleet=fleet, faults=faults)


def _with_a_shared_pool(spec: ScenarioSpec, dice: random.Random) -> ScenarioSpec:
    """The same beside one or two regions whose nodes are shared in rounds, and jobs for these; half of the fleets have a planner.

    All jobs save when they are told to: one that does not, and takes turns, begins anew each time. The faults are drawn anew, so that they
    strike the units of the pool too.
    """
    pools: dict[str, RegionSpec] = {}
    for number in range(dice.choice((1, 2, 2))):
        nodes = dice.randint(1, 4)
        pools[f"s{number}"] = RegionSpec(
            nodes=nodes,
            gpu_type=dice.choice(SHARED_TYPES),
            gpus_per_node=dice.choice((1, 2, 4)),
            workers=dice.randint(1, min(3, nodes)),
            agents=dice.randint(1, 2),
            pool=SHARED_POOL,
        )
    regions = {**regions_of(spec.fleet), **pools}
    settings = SharedSpec(dice.choice(POLICIES), dice.choice(ROUND_SECONDS))
    fleet = FleetSpec(regions, planner=dice.random() < 0.5, shared=settings)
    jobs = Shared(
        workloads=dice.randint(3, 5 + sum(map(gpus_of, pools.values()))),
        hours=HOURS,
        minutes_median=round(dice.uniform(2.0, 10.0), 2),
        minutes_max=20.0,
        fails_share=dice.choice((0.0, 0.1)),
        cancels_share=dice.choice((0.0, 0.1, 0.3)),
        holds_share=dice.choice((0.0, 0.1, 0.3)),
        requeues_share=dice.choice((0.0, 0.2)),
        lies_share=dice.choice((0.0, 0.3)),
        change_minutes=dice.choice((10.0, 60.0)),
        compression=COMPRESSION,
    )
    units = units_of(plan_of(fleet, "swarm"))
    faults = [_draw_fault(type(fault), units, dice) for fault in spec.faults]
    if dice.random() < ROUND_CRASH_SHARE:
        faults.append(RoundCrash(times=dice.randint(1, 3)))
    if fleet.planner and dice.random() < PAIRS_SHARE:
        # Pairs pay where there are more jobs of one GPU than GPUs, and little is lost by sharing one.
        fleet = replace(fleet, shared=replace(settings, policy=dice.choice(PAIRING), space_sharing=True))
        gpus = sum(map(gpus_of, pools.values()))
        jobs = replace(
            jobs,
            workloads=dice.randint(2, 4) * gpus + 2,
            hours=HOURS / 2,
            gpus_max=dice.choice((1, 1, 2)),
            beside=dice.choice((0.7, 0.9, 1.0)),
            models=dice.randint(1, 2),
        )
    return replace(spec, fleet=fleet, workload=(*spec.workload, jobs), faults=tuple(faults))


def _draw_endpoints(units: list[Unit], dice: random.Random) -> str:
    """One process by its name on the bus, or all of its role."""
    name = bus_name_of(dice.choice(units))
    role, dot, _ = name.partition(".")
    return f"{role}.*" if dot and dice.random() < 0.5 else name


def _draw_fault(kind: type[Fault], units: list[Unit], dice: random.Random) -> Fault:
    """With other parameters than by default where that is what makes misfortunes differ: how often, how much, whom."""
    given: dict[str, Any] = {}
    names = {field.name for field in msgspec.structs.fields(kind)}
    if "one_way" in names:
        given["one_way"] = dice.random() < ONE_WAY_SHARE
    if issubclass(kind, LinkFault | Partition) and dice.random() < LINK_SHARE:
        given["ones"] = (_draw_endpoints(units, dice),)
    if issubclass(kind, Crash):
        given["again_share"] = dice.choice((0.0, 0.5))
    if issubclass(kind, LinkFault):
        given["for_seconds"] = dice.choice((None, (1.0, 60.0), (60.0, 300.0)))
        given["after_seconds"] = None if given["for_seconds"] is None else (0.0, 500.0)
    else:
        given["times"] = dice.choice((1, 1, 2, 3))
    if "share" in names and issubclass(kind, LinkFault):
        given["share"] = round(dice.uniform(*SHARES), 3)
    if issubclass(kind, SubmissionStorm):
        given.update(workloads=dice.randint(5, 30), minutes_median=0.1, minutes_max=0.3, times=1)
    if issubclass(kind, UnitFault):
        whole = kind(**given)
        roles = sorted({unit.role for unit in whole.meant(units)})
        if dice.random() < 0.5:
            given["role"] = dice.choice(roles)
    return kind(**given)
