"""What plans say of pools is so, and in calm each pool has what it needs, also without any power domain, or the newest plan tells what it lacks."""

from collections import Counter

from core.nouns.ids import RegionName, region_log
from core.nouns.pool import Survives
from scenarios.accounting.pools import gpus_by_domain
from scenarios.check import Check, Run

PROBLEMS_MAX = 3
LOOK_SECONDS = 5.0
SLACK_SECONDS = 300.0
"""For nodes that came back last, and a planner that was down last."""


class PoolsHold(Check, frozen=True):
    """Each plan is compared with the nodes as it is recorded, where nothing has changed since it was made."""

    async def in_calm(self, run: Run) -> list[str]:
        """Return the needs that are not met and of which the newest plan does not say so."""
        deadline = run.world.now() + SLACK_SECONDS
        while (found := _unmet(run)) and run.world.now() < deadline:
            await run.world.sleep(LOOK_SECONDS)
            for region in run.world.plan.region_names():
                run.world.look(region_log(region))
        return found[:PROBLEMS_MAX]

    async def at_end(self, run: Run) -> list[str]:
        """Return what plans said that was not so."""
        return run.witness.pools.wrong[:PROBLEMS_MAX]


def _unmet(run: Run) -> list[str]:
    return [text for region in run.world.plan.region_names() for text in _unmet_in(run, region)]


def _unmet_in(run: Run, region: RegionName) -> list[str]:
    image = run.witness.region(region)
    told = {
        (one.pool, one.node_type): one.short
        for one in image.pools.plan.standings
        if image.pools.is_applied and image.pools.plan.basis.revision == image.pools.revision
    }
    has = gpus_by_domain(image)
    found = []
    for pool, settings in sorted(image.pools.settings.items()):
        for node_type, needed in settings.needs:
            domains = has.get((pool, node_type), Counter[str]())
            lost = max(domains.values(), default=0) if settings.survives is Survives.POWER_DOMAIN else 0
            left = sum(domains.values()) - lost
            if left < needed - told.get((pool, node_type), 0):
                found.append(f"pool {pool} of {region} needs {needed} {node_type} and is left with {left}")
    return found
