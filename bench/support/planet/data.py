"""Datasets of a planet, each of which lies in two regions, and work that reads one: such work has two candidate regions.

A workload reads a dataset whose two regions could both hold the workload if they were empty, for data is kept where the hardware is. Early
binders bind by data too: to the less loaded of the two regions.

source    MAST (OSDI'24) fig. 7: a third of the workloads has at most two candidate regions
"""

import random
from collections.abc import Mapping, Sequence
from itertools import permutations

from msgspec.structs import fields, replace

from core.nouns.ids import DatasetName, RegionName
from core.nouns.workload import WorkloadSpec
from scenarios.schema.fleet import FleetSpec, regions_of
from scenarios.schema.parts import Share
from scenarios.variant import Binder, could_hold
from scenarios.workload import Workload
from scenarios.workloads.mast import Mast

Placed = Mapping[DatasetName, tuple[RegionName, ...]]
"""Regions of each dataset, its home first."""


class ReadingMast(Mast, frozen=True):
    """The published load, of which a share reads data."""

    regions_of_data: dict[str, tuple[str, str]] = {}
    """Home and copy by dataset."""
    reads_share: Share = 0.0
    """Workloads that read one dataset each, if any dataset is where they fit."""

    @property
    def name(self) -> str:
        """The workloads are called as those of the load without data."""
        return "mast"

    def draw(self, fleet: FleetSpec, dice: random.Random, number: int) -> WorkloadSpec:
        """Return one workload; all runs of a series read the same dataset."""
        spec = super().draw(fleet, dice, number)
        if dice.random() >= self.reads_share:
            return spec
        regions = regions_of(fleet)
        fit = {name for name, region in regions.items() if could_hold(region, spec)}
        names = [name for name, places in self.regions_of_data.items() if fit.issuperset(places)]
        return replace(spec, data=(DatasetName(dice.choice(names)),)) if names else spec


class ByData(Binder):
    """Binds as another binder does, among the regions that have the data."""

    def __init__(self, binder: Binder, datasets: Placed) -> None:
        self._binder, self._datasets = binder, datasets

    def bound(self, spec: WorkloadSpec) -> WorkloadSpec:
        """A binder that binds late leaves the regions of the data to the queue."""
        if not spec.data or type(self._binder) is Binder:
            return self._binder.bound(spec)
        return self._binder.bound(replace(spec, regions=self._datasets[spec.data[0]]))


def reading(load: Mast, fleet: FleetSpec, share: float) -> ReadingMast:
    """Return the load with this share of work that reads data. Every region but the smallest is home to data, and has copies."""
    regions = regions_of(fleet)
    smallest = min(regions, key=lambda name: regions[name].nodes)
    pairs = permutations([name for name in regions if name != smallest], 2)
    datasets = {f"from-{home}-in-{copy}": (home, copy) for home, copy in pairs}
    same = {field.name: getattr(load, field.name) for field in fields(load)}
    return ReadingMast(**same, regions_of_data=datasets, reads_share=share)


def read_share(load: Workload, fleet: FleetSpec, seed: int) -> float:
    """Return the share of a load's workloads that read data, as this seed draws them."""
    arrivals = load.arrivals(fleet, random.Random(f"load/{seed}"))
    return sum(bool(one.spec.data) for one in arrivals) / len(arrivals)


def placed(loads: Sequence[Workload]) -> Placed:
    """Return where the data of these loads is."""
    return {
        DatasetName(name): (RegionName(home), RegionName(copy))
        for load in loads
        if isinstance(load, ReadingMast)
        for name, (home, copy) in load.regions_of_data.items()
    }
