"""An operator plans work on a rack, a power domain or a zone, and does it: what has to be empty is by then, or is killed."""

from core.nouns.maintenance import MaintenanceKind, Scope, ScopeKind
from core.rules.scopes import nodes_in
from scenarios.fault import RegionFault, Stage
from scenarios.play.operators import Operators
from scenarios.schema.parts import Range


class WorkOnNodes(RegionFault, frozen=True):
    """Nothing is switched off: whether the nodes are empty in time is what is looked at."""

    scope: ScopeKind = ScopeKind.RACK
    kind: MaintenanceKind = MaintenanceKind.POWER
    notice_seconds: Range = (30.0, 300.0)
    window_seconds: Range = (60.0, 600.0)

    async def strike(self, stage: Stage) -> None:
        """One place of this sort, drawn."""
        region, operators = self.drawn(stage), Operators(stage.users)
        notice, window = stage.draw(self.notice_seconds), stage.draw(self.window_seconds)
        image = await operators.image(region, "capacity")
        names = names_of(self.scope, stage, region)
        name = names[stage.dice.randrange(len(names))]
        scope = Scope(self.scope, (name,))
        stage.has_struck = bool(nodes_in(image.capacity, scope)[0])
        if not stage.has_struck:
            return  # Its worker has not joined yet.
        planned = await operators.plan(region, scope, self.kind, starts_in=notice, lasts=window, lead=notice)
        stage.has_struck = bool(planned)
        try:
            await stage.world.sleep(notice + window)
        finally:
            if planned:  # Also when misfortune ends before the window does.
                stage.users.begin(operators.cancel(region, planned), f"call-off/{region}/{planned}")


def names_of(kind: ScopeKind, stage: Stage, region: str) -> list[str]:
    """Every place of a region of this sort."""
    plans = [plan for plan in stage.world.plan.regions if plan.region == region]
    groups = [group for plan in plans for one in plan.inventories for group in one.groups]
    match kind:
        case ScopeKind.NODE:
            found = {str(node) for group in groups for node in group.numbers()}
        case ScopeKind.RACK:
            found = {str(group.rack_of(node)) for group in groups for node in group.numbers()}
        case ScopeKind.ZONE:
            found = {group.zone for group in groups}
        case ScopeKind.POOL:
            found = {group.pool for group in groups}
        case ScopeKind.POWER_DOMAIN:
            found = {group.power_domain or group.zone for group in groups}
        case ScopeKind.WORKER:
            found = {one.worker for plan in plans for one in plan.inventories}
    return sorted(found)
