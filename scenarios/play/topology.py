"""Who serves which place of a region: racks and zones, which fail as one."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from core.nouns.fleet import UNNUMBERED, NodeGroup
from core.nouns.ids import RegionName
from runtime.wiring import Plan, Unit
from scenarios.fault import Stage
from scenarios.schema.fleet import units_meant
from scenarios.schema.parts import Range

Place = tuple[str | int, ...]


def workers_by_rack(plan: Plan, units: Sequence[Unit], region: RegionName) -> list[list[Unit]]:
    """Of each rack of a region, the workers that serve any of its nodes."""

    def racks(worker: Unit, group: NodeGroup) -> list[Place]:
        if group.rack_first == UNNUMBERED:  # The region numbers it when it joins, and shares it with nobody.
            return [(worker.member, group.zone)]
        return [(rack,) for rack in range(group.rack_first, group.rack_of(group.numbers()[-1]) + 1)]

    return _workers_by(plan, units, region, racks)


def workers_by_zone(plan: Plan, units: Sequence[Unit], region: RegionName) -> list[list[Unit]]:
    """Of each zone of a region, the workers that serve any of its nodes."""
    return _workers_by(plan, units, region, lambda _, group: [(group.zone,)])


def workers_by_domain(plan: Plan, units: Sequence[Unit], region: RegionName) -> dict[str, list[Unit]]:
    """Of each power domain of a region by its name, the workers that serve any of its nodes; a zone where none is known."""
    found: dict[str, list[Unit]] = {}
    for worker in units_meant(units, "worker", region):
        for group in plan.inventory(worker.region, worker.member).groups:
            there = found.setdefault(group.power_domain or group.zone, [])
            if worker not in there:
                there.append(worker)
    return found


async def lose_power(stage: Stage, workers: Sequence[Unit], down_seconds: Range) -> None:
    """All of them at one instant; and all come back together."""
    async with AsyncExitStack() as back:
        for worker in workers:
            # Whole or not at all: whoever is cut short here has none to revive.
            await stage.world.power_off(worker)
            back.push_async_callback(stage.world.revive, worker)
        await stage.wait(down_seconds)


def _workers_by(
    plan: Plan,
    units: Sequence[Unit],
    region: RegionName,
    places_of: Callable[[Unit, NodeGroup], list[Place]],
) -> list[list[Unit]]:
    found: dict[Place, list[Unit]] = {}
    for worker in units_meant(units, "worker", region):
        for group in plan.inventory(worker.region, worker.member).groups:
            for place in places_of(worker, group):
                there = found.setdefault(place, [])
                if worker not in there:
                    there.append(worker)
    return list(found.values())
