"""Scenarios of the swarm in which data moves: storage, links, datasets, work that reads them, plans, and faults of data.

Drawn over whatever else a seed has, by dice of its own, so that nothing else is drawn otherwise.
"""

import random

from msgspec.structs import replace

from core.nouns.ids import RegionName
from scenarios.fault import Fault
from scenarios.faults.copy_corrupt import CopyCorrupt
from scenarios.faults.crash import Crash
from scenarios.faults.data_disk_full import DataDiskFull
from scenarios.faults.data_link import DataLink
from scenarios.faults.data_plan import DataPlan
from scenarios.faults.day_bytes import DayBytes
from scenarios.scenario import CalmSpec, ScenarioSpec
from scenarios.schema.data import DataFleetSpec, DatasetSpec
from scenarios.schema.fleet import regions_of

COPIES_SHARE = 0.4
"""Of the fleets of two regions or more, those in which data moves: a quarter of all."""
DATASETS_MAX = 5
READERS_MAX = 10
"""Workloads that read data, beside the others."""
CALM_MINUTES = 8 * 60.0
"""A copy that failed three times is left for an hour, one that fails again for two; work that waits for the copy waits as long."""
OF_DATA: tuple[type[Fault], ...] = (CopyCorrupt, DataDiskFull, DataLink)
"""Misfortunes of copies; each scenario in which data moves has some of them."""
OF_COPIES: tuple[type[Fault], ...] = (*OF_DATA, DataPlan, DayBytes)
"""Faults that need data services, and are drawn here alone."""


def has_copies(spec: ScenarioSpec, dice: random.Random) -> bool:
    """Draw whether data moves in a scenario: not where there is one region."""
    return dice.random() < COPIES_SHARE and len(regions_of(spec.fleet)) > 1


def with_copies(spec: ScenarioSpec, dice: random.Random) -> ScenarioSpec:
    """Return the same scenario with data that moves. Work that reads data already reads these datasets; else a few workloads do.

    Every region can hold all datasets: work that waits for data must be able to run in the end.
    """
    names = spec.workload[0].data
    is_said = bool(names)  # Then operators say again and again where the datasets are.
    names = names or tuple(f"set-{number}" for number in range(dice.randint(2, DATASETS_MAX)))
    data = _draw_data(tuple(map(RegionName, regions_of(spec.fleet))), names, dice)
    loads = spec.workload
    if not is_said:
        loads = (*loads, replace(loads[0], workloads=dice.randint(3, READERS_MAX), data=names))
    faults = [_draw_fault(kind, dice) for kind in dice.sample(OF_DATA, dice.randint(1, len(OF_DATA)))]
    if dice.random() < 0.5:
        faults.append(
            Crash(role="data_service", times=dice.randint(1, 3), again_share=dice.choice((0.0, 0.5)))
        )
    if dice.random() < 0.6:
        faults.append(DataPlan(times=dice.randint(1, 4)))
    if dice.random() < 0.4:
        largest = max(one.gb for one in data.datasets.values())
        gb = round(dice.uniform(0.3, 2.0) * largest, 2)
        faults.append(DayBytes(gb=gb, for_seconds=(60.0, 400.0), after_seconds=(0.0, 300.0)))
    return replace(
        spec,
        fleet=replace(spec.fleet, data=data),
        workload=loads,
        faults=(*spec.faults, *faults),
        calm=CalmSpec(CALM_MINUTES),
    )


def _draw_data(regions: tuple[RegionName, ...], names: tuple[str, ...], dice: random.Random) -> DataFleetSpec:
    """Return datasets, storage for all of them in each region, and links over which a copy takes seconds to minutes."""
    datasets = {}
    for name in names:
        home = dice.choice(regions)
        datasets[name] = DatasetSpec(
            home=home,
            gb=round(dice.uniform(0.05, 1.5), 2),
            copies=tuple(region for region in regions if region != home and dice.random() < 0.2),
            pinned=dice.random() < 0.2,
        )
    total = sum(one.gb for one in datasets.values())
    return DataFleetSpec(
        storage_gb=round(total * dice.choice((1.0, 1.5, 10.0)) + 0.01, 2),
        link_mb_per_second=dice.choice((20.0, 40.0, 200.0)),
        datasets=datasets,
    )


def _draw_fault(kind: type[Fault], dice: random.Random) -> Fault:
    """Return a misfortune of copies that ends while the load lasts, most of the time."""
    if kind is CopyCorrupt:
        return CopyCorrupt(times=dice.randint(1, 2))
    if kind is DataDiskFull:
        return DataDiskFull(for_seconds=(5.0, 60.0))
    return DataLink(permille=dice.choice((0, 0, 100)), for_seconds=(10.0, 200.0), times=dice.randint(1, 3))
