"""A machine that joins a plane which others keep up: where that plane is, and what this machine brings."""

import re
import socket
from collections.abc import Sequence
from pathlib import Path

from core.images import GlobalImage, RegionImage
from core.nouns.fleet import UNNUMBERED, NodeGroup
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkerName, region_log
from mizzen.connect.plane import (
    FILE,
    FLEET,
    FLEET_VARIABLE,
    Plane,
    client_of,
    fetch_image,
    read_plane,
    usable_url,
)
from mizzen.terminal.output import MISUSED, CommandError, tell_note
from mizzen.terminal.worker_options import UNSAID, SpotOptions
from runtime.fleet_file import HERE, POOL, ZONE
from runtime.plane import spool_of
from runtime.tasks.slots import find_devices, inventory_of_this_machine
from runtime.wiring import Plan, RegionPlan

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def plane_to_join(where: str, fleet: str = FLEET) -> Plane:
    """The plane at an address, or the one that a `plane.json` or its folder tells of. Raises CommandError."""
    if "://" in where:
        return Plane(usable_url(where, "the address to join"), fleet)
    path = Path(where)
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        text = f"there is no {path}; give the address of a plane's NATS server, or the {FILE} of one on this machine"
        raise CommandError(text, MISUSED)
    return read_plane(path)


def name_of_this_machine() -> str:
    """A worker's name must be its own: on one machine two workers need a --member each."""
    return _NO_NAME.sub("-", socket.gethostname()).strip("-")[:100] or "worker"


def plan_of_joining(
    plane: Plane, region: RegionName, worker: WorkerName, cpu_slots: int, spot: SpotOptions
) -> Plan:
    """What this machine brings, numbered by the region when it joins."""
    inventory = inventory_of_this_machine(
        worker,
        find_devices(cpu_slots),
        rack=UNNUMBERED if spot.rack is None else spot.rack,
        zone=spot.zone or ZONE,
        power_domain=spot.power_domain,
        pool=spot.pool or POOL,
    )
    return Plan(plane.fleet, (RegionPlan(region, (inventory,)),))


async def region_to_join(
    plane: Plane, wanted: str, member: str, spools: Path, spot: SpotOptions = UNSAID
) -> RegionName:
    """The region that is meant: `here`, or the only one there is, if none is named.

    A worker of this name may be known there only if its spool is here: two workers of one name would each be taken for the
    other. It stays what it was when it first joined, but for the pools of its nodes: plans move nodes, and a pool that is named again
    moves none. Raises CommandError.
    """
    async with client_of(plane, "joining") as bus:
        try:
            image, _ = await fetch_image(bus, GLOBAL_LOG, ("regions",))
        except CommandError as error:
            text = f"no queue of the fleet {plane.fleet} answers there; if it is called otherwise, say so by {FLEET_VARIABLE}"
            raise CommandError(text) from error
        assert isinstance(image, GlobalImage), image
        region = _region_meant(sorted(image.regions.sequences), wanted)
        there, _ = await fetch_image(bus, region_log(region), ("capacity",))
    assert isinstance(there, RegionImage), there
    if member in there.capacity.workers and not spool_of(spools, region, member).exists():
        text = f"region {region} has a worker {member} already, and its spool is not in {spools}"
        raise CommandError(f"{text}; give this one another name with --member", MISUSED)
    if member in there.capacity.workers:
        groups = there.capacity.workers[WorkerName(member)].inventory.groups
        differs = spot.differs(groups[0])
        if differs:
            text = f"worker {member} joined region {region} with {', '.join(differs)}"
            raise CommandError(f"{text}; say that or nothing, or join again under another --member", MISUSED)
        note = pool_note(region, member, groups, spot)
        if note:
            tell_note(note, is_json=False)
    return region


def pool_note(region: RegionName, member: str, groups: Sequence[NodeGroup], spot: SpotOptions) -> str:
    """Return the note for a worker that names another pool than its nodes are in; empty if there is none to tell.

    groups   of the worker, as the region has them
    """
    pools = sorted({group.pool for group in groups})
    if not spot.pool or pools == [spot.pool]:
        return ""
    where = f"{'pool' if len(pools) == 1 else 'pools'} {', '.join(pools)} of region {region}"
    told = f"the nodes of worker {member} are in {where}, and stay there"
    return f"{told}: --pool {spot.pool} changes nothing; `mizzen pools need` moves nodes"


def _region_meant(regions: list[RegionName], wanted: str) -> RegionName:
    if wanted and wanted not in regions:
        raise CommandError(f"the plane has no region {wanted}; it has {', '.join(regions)}", MISUSED)
    if wanted or len(regions) == 1:
        return RegionName(wanted or regions[0])
    if HERE in regions:
        return HERE
    raise CommandError(f"which region does this machine join? --region {' or '.join(regions)}", MISUSED)
