"""What operators set of a region's agents, in a scenario: as commands do it, through the bus, and insisting."""

from core.images import RegionImage
from core.messages.agents import AgentsAnswered, AgentsShown, SetAgents, ShowAgents
from core.messages.base import Refused
from core.nouns.agents import AgentSettings
from core.nouns.ids import RegionName
from core.nouns.reasons import Reason
from scenarios.play.operators import LOOK_AGAIN_SECONDS, OPERATOR, TRIES_MAX, Operators
from scenarios.users import Users


async def set_agents(users: Users, region: RegionName, settings: AgentSettings) -> list[str]:
    """Have a region's agents see it so from now on. Return why that was refused; empty: it was not."""
    operators = Operators(users)
    for _ in range(TRIES_MAX):
        shown = await users.insist(ShowAgents(region))
        assert isinstance(shown, AgentsShown), shown
        image: RegionImage = await operators.image(region, "agents")
        message = SetAgents(region, settings, len(shown.agents), image.agents.revision, OPERATOR)
        answer = await users.insist(message)
        if isinstance(answer, AgentsAnswered):
            return []
        assert isinstance(answer, Refused), answer
        # Agents that are only just starting are not there yet.
        if answer.reason != Reason.SUPERSEDED and len(shown.agents) > settings.full:
            break
        await users.world.sleep(LOOK_AGAIN_SECONDS)
    return [f"the agents of {region} were not set: {answer}"]
