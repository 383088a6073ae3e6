"""Events of a region's log about its agents."""

from core.fact import Event
from core.nouns.agents import AgentSettings


class AgentsSet(Event, frozen=True, tag="agents-set"):
    """An operator set how the region's agents see it, and in which order they look at partitions."""

    settings: AgentSettings
    by: str = ""


EVENTS: tuple[type[Event], ...] = (AgentsSet,)
