"""The doer of a region's data service, as the fleet file says: real files, or emulated ones."""

from pathlib import Path

from core.nouns.ids import RegionName
from runtime.clock import Clock
from runtime.data.emulated import EmulatedData
from runtime.data.emulated_world import DataWorld
from runtime.data.files import DataFiles
from runtime.wiring import Plan


def data_doer_of(plan: Plan, region: RegionName, clock: Clock) -> DataFiles | EmulatedData:
    """Return it for a region of a plan with `data`.

    Each process of a real plane emulates the disks of all regions by itself: another region has the datasets that orders say it has.
    """
    directories = {one.region: one.data.directory for one in plan.regions if one.data is not None}
    directory = directories[region]
    if not directory:
        return EmulatedData(region, DataWorld(), clock)
    others = {name: Path(path) for name, path in directories.items() if path and name != region}
    (command,) = [one.data.copy for one in plan.regions if one.region == region and one.data is not None]
    return DataFiles(region, Path(directory), others, command)
