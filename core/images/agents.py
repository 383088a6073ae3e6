"""A section of a region's image: how its agents see it."""

from core.events.agents import AgentsSet
from core.fact import Fact
from core.images.base import Section
from core.nouns.agents import AgentSettings


class Agents(Section):
    """The settings of the region's agents."""

    FOLDS = {AgentsSet: "_set"}

    settings: AgentSettings = AgentSettings()
    revision: int = 0
    """Grows with every change: a command names the one that it was given for."""

    def _set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AgentsSet)
        self.settings = event.settings
        self.revision += 1
