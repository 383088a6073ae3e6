"""An operator states another need of a pool, in the middle of it all."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace

from runtime.wiring import Unit
from scenarios.fault import RegionFault, Stage
from scenarios.play.pool_needs import set_pool, settings_in
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import FieldError, Range


class PoolNeedSet(RegionFault, frozen=True):
    """Of one of the pools whose needs the fleet states, drawn if none is named: more or less of each GPU type."""

    is_misfortune: ClassVar[bool] = False
    pool: str = ""
    share: Range = (0.3, 1.2)
    """Of what it needs at the start."""

    async def strike(self, stage: Stage) -> None:
        """It is so until somebody states it otherwise; what a region could never have is refused, and nothing moves."""
        spec, region = stage.fleet.pools, self.drawn(stage)
        (plan,) = (plan for plan in stage.world.plan.regions if plan.region == region)
        known = settings_in(plan, spec) if spec is not None else {}
        pools = [pool for pool in sorted(known) if self.pool in ("", pool)]
        stage.has_struck = bool(pools)
        if not pools:
            return
        pool, share = stage.dice.choice(pools), stage.draw(self.share)
        needs = tuple((name, max(1, round(share * gpus))) for name, gpus in known[pool].needs)
        settings = replace(known[pool], needs=needs)
        stage.problems += await set_pool(stage.users, region, pool, settings, may_be_invalid=True)

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That the fleet states no needs, or none of this pool."""
        if fleet.pools is None:
            return FieldError(
                path, "no pool of the fleet needs anything; say `pools: {needs: ...}` of the fleet"
            )
        stated = {pool for needs in (fleet.pools.needs, *fleet.pools.in_region.values()) for pool in needs}
        if self.pool and self.pool not in stated:
            return FieldError((*path, "pool"), f"the fleet states no need of the pool {self.pool}")
        return super().problem(fleet, units, path)
