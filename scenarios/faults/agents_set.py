"""An operator has the agents of a region see it otherwise, under load, and after a while as before."""

from typing import ClassVar

from core.nouns.agents import AgentView, Placing
from core.nouns.ids import RegionName
from scenarios.fault import Fault, Stage
from scenarios.play.agent_settings import set_agents
from scenarios.schema.agents import AgentsSpec
from scenarios.schema.parts import Range


class AgentsSet(Fault, frozen=True):
    """Requests that are on their way are decided all the same; what runs is not touched."""

    is_misfortune: ClassVar[bool] = False
    region: str = ""
    """Drawn, if none is named."""
    view: AgentView | None = None
    """Drawn, if this is not said."""
    placing: Placing | None = None
    """Drawn, if this is not said."""
    sync_seconds: Range = (0.5, 10.0)
    for_seconds: Range = (5.0, 60.0)
    """Until the agents see the region as they did at the start."""

    async def strike(self, stage: Stage) -> None:
        """One region."""
        regions = [str(region) for region in stage.world.plan.region_names() if self.region in ("", region)]
        stage.has_struck = bool(regions)
        if not regions:
            return
        region = RegionName(regions[stage.dice.randrange(len(regions))])
        views, placings = list(AgentView), list(Placing)
        view = self.view or views[stage.dice.randrange(len(views))]
        placing = self.placing or placings[stage.dice.randrange(len(placings))]
        agents = next(plan.agents for plan in stage.world.plan.regions if plan.region == region)
        spec = stage.fleet.agent_settings or AgentsSpec()
        other = AgentsSpec(
            view,
            placing,
            spec.partitions,
            stage.draw(self.sync_seconds),
            full=max(1, min(spec.full, agents - 1)),
        )
        before = spec if not spec.regions or region in spec.regions else AgentsSpec()
        if agents < 2:
            stage.has_struck = False
            return
        try:
            stage.problems += await set_agents(stage.users, region, other.settings)
            await stage.wait(self.for_seconds)
        finally:
            await stage.undo(lambda: set_agents(stage.users, region, before.settings))
